# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the CPUs that compute are left alone, and which of three things to do where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import partitions
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import jitter

QUIET = {"cpus": "4-5", "ticks": 1.0, "devices": 0.0, "sent": 300.0, "involuntary": 0.5, "waited": 0.001}
TICK, DEVICE, TASK = "The tick goes on though", "Interrupts of devices come there", "Other tasks run there"


def item(root: Path, isolated: str = "", tickless: str = "(null)", **seen: Any) -> tuple[str, str]:
    folder = root / "sys/devices/system/cpu"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "isolated").write_text(f"{isolated}\n")
    (folder / "nohz_full").write_text(f"{tickless}\n")
    found = jitter.build_jitter_item(KernelFS(str(root)), "chat", "4-5", {"noise": {**QUIET, **seen}})
    assert (found.name, found.title) == ("jitter/chat", "jitter of chat")
    return found.verdict, found.sentence


def test_quiet_cpus_are_fine(tmp_path: Path) -> None:
    assert item(tmp_path, isolated="2-7", tickless="2-7") == (
        "ok",
        "On CPUs 4-5 at most 1 ticks, 0 interrupts of devices, 300 from other CPUs and 0.5 involuntary switches a "
        "second; a thread waited for 0.1% of the time.",
    )


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"ticks": 250.0}, {TICK}),
        ({"devices": 90.0}, {DEVICE}),
        ({"involuntary": 21.0}, {TASK}),
        ({"waited": 0.06}, {TASK}),
        ({"ticks": 250.0, "devices": 90.0}, {TICK, DEVICE}),
        # With two tasks that want a CPU its tick has to go on.
        ({"ticks": 250.0, "devices": 90.0, "waited": 0.3}, {DEVICE, TASK}),
    ],
)
def test_what_comes_to_isolated_cpus_is_wrong(tmp_path: Path, seen: dict[str, float], says: set[str]) -> None:
    verdict, sentence = item(tmp_path, isolated="4-5", tickless="4-5", **seen)
    assert verdict == "wrong" and {words for words in (TICK, DEVICE, TASK) if words in sentence} == says


def test_each_is_judged_only_where_something_keeps_it_away(tmp_path: Path) -> None:
    """nohz_full alone leaves the CPUs to other tasks too."""
    assert item(tmp_path, isolated="4-5", ticks=250.0)[0] == "ok"
    assert item(tmp_path, tickless="4-5", ticks=250.0)[0] == "wrong"
    assert item(tmp_path, tickless="4-5", waited=0.5, ticks=250.0)[0] == "ok"
    assert item(tmp_path, tickless="4-5", waited=0.5, devices=90.0)[0] == "wrong"


def test_cpus_that_are_not_isolated_are_told_and_not_judged(tmp_path: Path) -> None:
    for isolated in ("", "4"):
        verdict, sentence = item(tmp_path, isolated=isolated, devices=900.0, waited=0.5)
        assert (
            verdict == "not asked for"
            and "a thread waited for 50.0% of the time. Nothing keeps other programs off" in sentence
        )


def test_a_partition_keeps_tasks_away_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / partitions.FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "cpuset.cpus.effective").write_text("4-7\n")
    for kind in ("isolated", "root"):
        (folder / "cpuset.cpus.partition").write_text(f"{kind}\n")
        assert item(tmp_path, waited=0.5)[0] == "wrong"
        assert item(tmp_path, devices=90.0, ticks=250.0)[0] == "ok"
    (folder / "cpuset.cpus.partition").write_text("root invalid\n")
    assert item(tmp_path, waited=0.5)[0] == "not asked for"


def test_what_was_not_seen_is_unknown_only_where_it_matters(tmp_path: Path) -> None:
    for isolated, verdict in (("", "not asked for"), ("4-5", "unknown")):
        item(tmp_path, isolated=isolated)
        fs = KernelFS(str(tmp_path))
        for proof, why in (("it does not serve.", "it does not serve."), ({"noise": None}, "no thread computed")):
            found = jitter.build_jitter_item(fs, "chat", "4-5", proof)
            assert found.verdict == verdict and found.sentence.startswith(f"Not known: {why}")
