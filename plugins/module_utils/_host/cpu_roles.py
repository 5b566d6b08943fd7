# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles of CPUs in a plan."""

#: The role idle has the CPUs of no other role.
ROLES = ("housekeeping", "draft", "verify", "idle")
