# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs compared with each other: what differs between their hosts and instances, and the ratio of each figure."""
