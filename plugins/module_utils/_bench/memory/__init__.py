# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory bandwidth of an instance, and the share of a step that reading memory takes."""
