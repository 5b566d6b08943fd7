# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command on the host that undoes some layers: what it says, what it leaves, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts


class Machine:
    """A small machine on which the settings of numa were stored and applied, and the command that is run on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tree = hosts.small_to_tune(root)
        self.store = Store(str(root))
        self.capsys = capsys
        Ledger(self.store, self.tree.fs).ensure_files()
        self.store.save_document("desired.json", {"intent": {}, "requests": {"sysfs/numa": {"numa_balancing": False}}})
        assert self.run("apply")[0] == 0 and self.balancing() == "0"

    def run(self, *words: str) -> tuple[int, str, str]:
        code = _cli.main(words)
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def balancing(self) -> str:
        return self.tree.fs.read(hosts.BALANCING)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    def store(read_only: bool = False) -> Store:
        return Store(str(tmp_path), read_only=read_only)

    def tree(read_only: bool = False) -> Any:
        return KernelFS(str(tmp_path), read_only=read_only)

    monkeypatch.setattr(_cli, "KernelFS", tree)
    monkeypatch.setattr(_cli, "Store", store)
    return Machine(tmp_path, capsys)


def test_restore_of_layers(machine: Machine) -> None:
    assert machine.run("restore", "cat,irq") == (
        0,
        "0 settings changed, 0 were not put back\n"
        "Nothing of cat, irq was ever changed on this host, or all of it was put back before. Nothing was done now.\n",
        "",
    )
    assert machine.balancing() == "0"
    code, page, errors = machine.run("restore", "numa")
    assert (code, errors, machine.balancing()) == (0, "", "1")
    assert "sysfs:numa_balancing: 0 -> 1\n" in page
    assert page.endswith("Take numa out of epyc_steps too, or the next site.yml sets it again.\n")
    assert machine.run("restore", "numa", "--json", "--without-originals")[0] == 0


@pytest.mark.parametrize("words", [("nuna",), ("base",), (",",)])
def test_restore_of_what_is_no_layer_of_settings_is_refused(machine: Machine, words: tuple[str, ...]) -> None:
    code, page, errors = machine.run("restore", *words)
    assert (code, page, machine.balancing()) == (1, "", "0")
    assert "The layers that can be undone are numa, irq, cat, cpufreq, cpuidle, prefetch, grub_params." in errors


@pytest.mark.parametrize("words", [("cat", "irq"), ("--with",), ("cat", "irq", "--without-originals")])
def test_restore_with_other_words_is_answered_by_the_usage(machine: Machine, words: tuple[str, ...]) -> None:
    assert machine.run("restore", *words) == (1, "", _cli.USAGE)
