# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons why no server can serve a model, as far as its file says; reading a file is left to gguf.py."""
