# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of hypothesis for all unit tests: a busy machine is no fault of the code, so time is not judged."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Do once what each process that ansible-test forks would do again, one for each test and for most of its time.

    That is: find a place for temporary folders and remove those of runs before; copy every page the collector looks at.
    """
    session.config._tmp_path_factory.getbasetemp()
    gc.collect()
    gc.freeze()
