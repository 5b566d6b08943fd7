# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systemd units of instances: what is in them, how they are written and started, and which are installed."""
