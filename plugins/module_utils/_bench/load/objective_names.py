# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of the objectives that an instance may be measured for, and the smallest effect that matters."""

#: What a setting may improve: the decoding of one stream, the tokens of all slots together, the reading of a prompt, or
#: the tokens of a joule. The first one is the default.
LATENCY, THROUGHPUT, PROMPT, ENERGY = OBJECTIVES = ("latency", "throughput", "prompt", "energy")
#: The default of the smallest effect that matters, as a share.
SMALLEST_EFFECT = 0.02
