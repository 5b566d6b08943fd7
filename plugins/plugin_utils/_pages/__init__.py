# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts that the HTML pages of reports share: markup, frame, style, escaping, host names, and the map of a host."""
