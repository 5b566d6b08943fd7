# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP requests to the Redfish service of a BMC, and its responses."""
