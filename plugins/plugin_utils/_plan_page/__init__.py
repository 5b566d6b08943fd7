# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet, gathered from the results of tasks and drawn as one HTML page."""
