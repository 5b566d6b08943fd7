# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systemd units of instances: planning, texts, writing and starting, drift, and the list of installed ones."""
