# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts and the numbers they stand for: CPU lists, cache masks, amounts of memory, command lines."""
