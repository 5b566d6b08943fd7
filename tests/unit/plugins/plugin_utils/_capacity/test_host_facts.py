# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts that a host sends are those that the controller takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.host_facts import require_host_facts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import measured
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._bench.test_capacity_facts import install, read


def test_facts_of_a_host_with_an_instance_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with measured(tmp_path, monkeypatch) as host:
        install(host)
        facts = read(host)
    require_host_facts(facts)
    with pytest.raises(Malformed):
        require_host_facts({**facts, "instances": [{}]})
