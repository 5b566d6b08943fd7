# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module llama_tune: a tuning takes hours, so its progress is shown."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import MeasuringAction as ActionModule

__all__ = ["ActionModule"]
