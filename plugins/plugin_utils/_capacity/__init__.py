# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many users the hosts of a fleet serve: counted from kept facts, as a report, a page and data."""
