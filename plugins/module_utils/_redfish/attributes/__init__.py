# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS attributes of one machine: which there are, what they are called, what they take and what locks them."""
