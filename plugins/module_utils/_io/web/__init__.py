# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on HTTP servers: requests, downloads that continue, and the first bytes of a file."""
