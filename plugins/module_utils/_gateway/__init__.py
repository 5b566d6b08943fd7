# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy and keepalived of a gateway: their configurations, and which servers get requests."""
