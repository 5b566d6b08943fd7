# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers and formatters of texts that stand for values: CPU lists, cache masks, amounts of memory, command lines."""
