# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hooks: commands that the unit of a server runs on the host before, while and after the server runs."""
