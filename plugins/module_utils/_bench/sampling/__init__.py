# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes the samples of one round, reads the other activity of the host, and discards disturbed samples."""
