# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The models that the tests plan, written once for a file of tests, and the host that serves them."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import Models, machine, models_in


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return models_in(tmp_path_factory.mktemp("models"))


@pytest.fixture
def host() -> Host:
    return machine("9754")
