# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of kernel files that several packages share; none of them changes a setting."""
