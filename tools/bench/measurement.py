# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the measurement of a benchmark program, and turns its errors and figures into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from vepyc import VepycError
from vepyc.figures import Figures


def run_measurement(name: str, measure: Callable[[Figures], None]) -> int:
    """Call a function that measures and prints figures; return 1 if it fails or if a figure misses its bar."""
    figures = Figures()
    try:
        measure(figures)
    except (VepycError, TuningError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return int(figures.missed)
