# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of gateways: the hosts and models behind a gateway, and the address that several gateways share."""
