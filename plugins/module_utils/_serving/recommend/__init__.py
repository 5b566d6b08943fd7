# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of an inventory for a host and the models that it shall serve, each with its reason and its cost."""
