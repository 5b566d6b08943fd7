# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What llama_fingerprint_info says of an instance that was measured on something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target import fingerprint, measured_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import HOLDS_FOR
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.modules import llama_fingerprint_info
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        host.service.tree.put("/sys/class/dmi/id/bios_version", "F7")
        yield host


def asked(here: Measured, name: str = "chat", **expect: Any) -> dict[str, Any]:
    return llama_fingerprint_info.compare_fingerprint({"instance": name, "expect": expect}, here.service.tree.fs)


def test_what_is_the_same_makes_no_difference(here: Measured) -> None:
    """All that a tuning holds for, and numbers that a file of variables may have without quotes."""
    host = here.host()
    known = fingerprint.read_fingerprint(host, measured_instance.find_llama_instance(host, "chat"), ())
    same = {key: known[key] for key in HOLDS_FOR}
    assert (same["bios"], same["engine_build"], len(same["model_sha256"])) == ("F7", "b11434", 64)
    assert asked(here, **same) == {"found": same, "differences": []}
    here.service.tree.put("/sys/class/dmi/id/bios_version", "12")
    assert asked(here, bios=12)["differences"] == []


def test_each_difference_is_a_sentence(here: Measured) -> None:
    found = asked(here, bios="F6", engine_build="b11500", model_sha256="ab" * 32, microcode="0xa10113e", kernel=None)
    model = found["found"]["model_sha256"]
    assert found["found"].items() >= {"bios": "F7", "engine_build": "b11434", "microcode": None}.items()
    assert found["differences"] == [
        "The BIOS of chat is F7 and was F6 when it was tuned; run tune.yml again.",
        "The build of the server of chat is b11434 and was b11500 when it was tuned; run tune.yml again.",
        f"The SHA-256 of the model of chat is {model[:12]} and was abababababab when it was tuned; run tune.yml again.",
        "The microcode of chat is not known and was 0xa10113e when it was tuned; run tune.yml again.",
    ]


def test_an_instance_that_there_is_not_is_refused(here: Measured) -> None:
    with pytest.raises(BadRequest, match="There is no instance other on this host, which has chat"):
        asked(here, "other", bios="F7")
