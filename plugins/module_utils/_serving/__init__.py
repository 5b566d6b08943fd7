# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances that serve models with llama.cpp or vLLM: options, plans, systemd units, and checks of these."""
