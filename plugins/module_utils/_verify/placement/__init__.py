# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the threads and the memory of a running service are, compared with what was requested."""
