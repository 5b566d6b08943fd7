# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a knob is, how knobs get their wanted values, and where originals and stored requests are."""
