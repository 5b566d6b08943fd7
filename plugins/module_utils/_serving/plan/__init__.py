# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of an instance: CPUs, nodes, memory and speculation, computed without running a program."""
