# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""vLLM as an engine of instances: its options, what an installation can do, and where its processes compute."""
