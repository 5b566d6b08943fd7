# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conclusions from the samples of a run: verdicts on settings, and the result of a tuning."""
