# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that a unit calls on the host before, while and after its server runs."""
