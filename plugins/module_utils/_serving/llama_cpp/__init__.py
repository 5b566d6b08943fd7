# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engines llama.cpp and ik_llama.cpp: the capabilities, arguments and units of their servers."""
