# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files in the GGUF format: download, headers, the cost of a token, and drafts that fit a model."""
