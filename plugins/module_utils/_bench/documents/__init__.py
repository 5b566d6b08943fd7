# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The JSON document of a run: its schema, and how it is loaded and saved."""
