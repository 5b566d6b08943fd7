# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks of running instances: they serve, guess tokens, and run where they were planned."""
