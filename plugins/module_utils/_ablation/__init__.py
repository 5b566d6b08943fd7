# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ablations: each setting is removed in turn, its effect is measured, and all settings are restored."""
