# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology of a host, the operator's intent, and the plan computed from both."""
