# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A repair beside a run that updates an instance, as a roll does: one waits for the other or is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.repair import ROLES, repair_drift
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command, store
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import (
    BOOT_SERVICE_LINK,
    INSTANCE_HEAD,
    UNIT_FOLDER,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import REQUESTS, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import StoredRequests
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import Instance
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import standing_run
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import LastingSystemd

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

MAIN = "llama-chat.service"
ONE, TWO = f"{INSTANCE_HEAD}\n[Service]\nNice=1\n", f"{INSTANCE_HEAD}\n[Service]\nNice=2\n"
NUMA, IRQ = {"sysfs/numa": {"numa_balancing": False}}, {"sysfs/irq": {"workqueue_cpus": "0-15"}}
STEPS = [(KernelFS, "write"), (command, "run_command")]


class Machine:
    """A small machine with a stored setting that has drifted, and with one instance."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.systemd = LastingSystemd(root, {MAIN: "multi-user.target"})
        tree = hosts.small_to_tune(root)
        tree.put(BOOT_SERVICE_LINK, "[Unit]")
        patch.setattr(command, "run_command", self.systemd.run)
        self.fs, self.store, self.root = KernelFS(str(root)), Store(str(root)), str(root)
        Ledger(self.store, self.fs).ensure_files()

    def begin(self) -> None:
        """Have the first version of the instance run, and let somebody change the setting."""
        self.update(ONE, NUMA)
        Path(self.root + hosts.BALANCING).write_text("1\n")

    def update(self, text: str, requests: dict[str, object]) -> None:
        """Do what a roll does on a host: store requests of a layer, and replace the server."""
        knobs = [
            StoredRequests(self.store, {**dict.fromkeys(IRQ), **requests}),
            Instance("chat", {f"{UNIT_FOLDER}/{MAIN}": text}, root=self.root),
        ]
        converge_knobs(knobs, Ledger(self.store, self.fs))

    def repair(self) -> None:
        repair_drift(self.fs, self.store, ROLES, max_repairs_per_day=1000)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(store, "hold_file_lock", partial(store.hold_file_lock, timeout=0.0))
    return Machine(tmp_path, monkeypatch)


def roll(machine: Machine) -> None:
    machine.update(TWO, {**NUMA, **IRQ})


@pytest.mark.parametrize(("first", "second"), [(roll, Machine.repair), (Machine.repair, roll)])
def test_a_repair_beside_a_roll(
    machine: Machine, first: Callable[[Machine], None], second: Callable[[Machine], None]
) -> None:
    refused = 0
    for turn in count(1):
        machine.begin()
        done = True
        with standing_run(turn, lambda: first(machine), STEPS) as stands:
            try:
                second(machine)
            except TuningError as error:
                assert "Another program has held the lock" in str(error) and "nothing was changed" in str(error)
                done, refused = False, refused + 1
        ran = {first} | ({second} if done else set())
        assert (machine.systemd.running_text(MAIN) == TWO) is (roll in ran), turn
        assert (machine.fs.read(hosts.BALANCING) == "0") is (Machine.repair in ran), turn
        stored = machine.store.load_document(REQUESTS)["requests"]
        assert stored == {**NUMA, **(IRQ if roll in ran else {})}, turn
        if not stands:
            break
    assert refused > 10
