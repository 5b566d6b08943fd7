# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS settings of a server through the Redfish service of its BMC."""
