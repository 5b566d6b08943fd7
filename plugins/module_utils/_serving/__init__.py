# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of llama.cpp: planned, built, written as systemd units, and held against their plans."""
