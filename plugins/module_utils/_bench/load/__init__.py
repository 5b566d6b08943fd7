# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prompts, requests and answers: the load that a measurement puts on an instance."""
