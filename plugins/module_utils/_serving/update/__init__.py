# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a running server is replaced: its port handed over to the new server, and how long nobody is served."""
