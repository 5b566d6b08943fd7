# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host: a line for each run that changed something, or that did not end."""
