# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on every setting, and the verdicts grouped into findings for people."""
