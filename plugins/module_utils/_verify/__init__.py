# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a tuned host, and the proof of what a running service does."""
