# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of samples, and the confidence sequence by which a run decides when to stop."""
