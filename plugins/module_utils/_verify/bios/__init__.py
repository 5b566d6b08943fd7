# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""BIOS settings as the kernel shows them: one file for each subject, a table of the settings, and the verdicts."""
