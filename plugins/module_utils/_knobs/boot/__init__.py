# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters of the kernel, in the configuration of the boot loader."""
