# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of an instance: what it needs, what its nodes have free, and what its slots and its prompt cache hold."""
