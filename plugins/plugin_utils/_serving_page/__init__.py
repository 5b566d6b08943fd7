# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTML page that shows what a fleet serves at this moment, as Prometheus measures."""
