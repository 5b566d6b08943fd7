# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of hypothesis for all unit tests: a busy machine is no fault of the code, so time is not judged."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Keep the collector off what is there: in each process that ansible-test forks it would copy every page of it."""
    gc.collect()
    gc.freeze()
