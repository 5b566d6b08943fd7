# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the host on one screen: what sovereign-epyc prints without a command."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli, _cli_state
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import (
    BOOT_SERVICE_LINK,
    INSTANCE_HEAD,
    REBOOT_PENDING_FILE,
    UNIT_FOLDER,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import REQUESTS, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file, run
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import (
    PLAN_MARK,
    append_digest_line,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import plan

BALANCING = "/proc/sys/kernel/numa_balancing"
URL = "http://127.0.0.1:8080"


class Screen:
    """A small host, and what the command without words prints on it: name of each part -> its lines."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        self.tree = hosts.small(root)
        self.tree.put(BALANCING, 0)
        self.tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.store = Store(str(root))
        self.states: dict[str, str] = {}

    def tune(self) -> None:
        self.tree.put(BOOT_SERVICE_LINK, "[Unit]")
        Ledger(self.store, self.tree.fs).ensure_files()
        self.store.save_document(REQUESTS, {"intent": {}, "requests": {"sysfs/numa": {"numa_balancing": False}}})

    def add_instance(self, name: str, state: str) -> None:
        unit = f"llama-{name}.service"
        text = f"{INSTANCE_HEAD}\n{PLAN_MARK}{json.dumps(plan(name=name, url=URL, unit=unit))}\n"
        self.tree.put(f"{UNIT_FOLDER}/{unit}", append_digest_line(text))
        self.states[unit] = state

    def run_systemctl(self, words: list[str], *dummy: object, **options: object) -> str:
        """Answer 'systemctl show' for the units of this host."""
        units = [word for word in words if word in self.states]
        return "\n\n".join(f"Id={unit}\nActiveState={self.states[unit]}\nUnitFileState=enabled" for unit in units)

    def show(self) -> tuple[int, dict[str, list[str]]]:
        code = _cli.main([])
        said = self.capsys.readouterr()
        assert said.err == ""
        lines = said.out.splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80, said.out
        parts: dict[str, list[str]] = {}
        for line in lines:
            if line[0] != " ":
                parts[line.split()[0]] = []
            parts[list(parts)[-1]].append(line[_cli_state.NAME_COLUMNS :])
        return code, parts


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    here = Screen(tmp_path, capsys)

    def build_store(read_only: bool = False) -> Store:
        return Store(str(tmp_path), read_only=read_only)

    for module in (_cli, survey):
        monkeypatch.setattr(module, "Store", build_store)
    monkeypatch.setattr(_cli, "KernelFS", lambda read_only=False: KernelFS(str(tmp_path), read_only=read_only))
    monkeypatch.setattr(managed_units.command, "run_command", here.run_systemctl)
    for name in (run.ORIGIN, run.RUN):
        monkeypatch.delenv(name, raising=False)
    return here


def note_run_of_site(screen: Screen, monkeypatch: pytest.MonkeyPatch, has_ended: bool = True) -> None:
    with monkeypatch.context() as origin:
        origin.setenv(run.ORIGIN, '{"user": "ops", "controller": "ctl", "playbook": "site.yml"}')
        begun = history_file.begin_run(screen.store, ["numa"], ["numa"], 1795943400.0)
    if has_ended:
        history_file.end_run(screen.store, begun.id, 1795943460.0)


def test_a_host_that_was_never_tuned_says_so_and_names_the_first_look(screen: Screen) -> None:
    code, parts = screen.show()
    assert code == 2
    assert list(parts) == ["host", "tuned", "waits", "serves", "wrong", "next"]
    assert " ".join(parts["tuned"]) == "no: site.yml has never run here, or everything was put back"
    assert (parts["serves"], parts["wrong"]) == (["no instance"], ["nothing"])
    assert parts["next"] == ["Run site.yml --check --diff, which shows what it would change."]


def test_a_tuned_host_says_since_when_and_by_whom_and_what_proves_it(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.tune()
    note_run_of_site(screen, monkeypatch)
    code, parts = screen.show()
    assert code == 0
    assert parts["tuned"] == [
        f"since 2026-11-29 09:10 UTC by ops@ctl, with site.yml {VERSION}",
        "2 settings checked, 0 not as configured",
    ]
    assert (parts["waits"], parts["wrong"]) == (["for nothing"], ["nothing"])
    assert parts["next"] == ["Nothing to do; verify.yml proves it."]


def test_what_is_wrong_is_said_as_a_check_says_it_and_comes_before_a_reboot(screen: Screen) -> None:
    screen.tune()
    screen.tree.put(BALANCING, 1)
    screen.tree.put(REBOOT_PENDING_FILE, "isolcpus nohz_full")
    code, parts = screen.show()
    assert code == 2
    assert parts["tuned"][0].startswith("yes; the history of this host does not say by whom")
    assert parts["waits"] == ["for a reboot: isolcpus, nohz_full (put back)"]
    assert parts["wrong"] == ["NUMA balancing: found 1, wanted 0"]
    assert parts["next"] == ["Run site.yml --tags numa."]
    screen.tree.put(BALANCING, 0)
    assert screen.show()[1]["next"] == ["Run reboot.yml -e epyc_reboot_ok=true."]


def test_a_run_that_did_not_end_is_wrong_also_where_nothing_is_stored(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GOES_ON", 0)
    note_run_of_site(screen, monkeypatch, has_ended=False)
    code, parts = screen.show()
    assert (code, parts["next"]) == (2, ["Run site.yml."])
    assert "ops@ctl began on 2026-11-29 at 09:10 UTC did not end" in " ".join(parts["wrong"])


def test_many_instances_and_findings_fit_on_the_screen(screen: Screen) -> None:
    screen.tune()
    for number in range(9):
        screen.add_instance(f"a-model-with-a-long-name-{number}-" + "x" * 60, "failed")
    code, parts = screen.show()
    assert code == 2
    assert parts["serves"][-1] == "and 5 more: sovereign-epyc agent"
    assert parts["wrong"][-1].endswith(" more: sovereign-epyc check")


def test_who_serves_has_its_address_its_state_and_its_last_speed(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is that of a real run; the archive of the benchmark is not here, so this clone stands for it."""
    screen.tune()
    screen.add_instance("chat", "active")
    screen.add_instance("code", "failed")
    code, parts = screen.show()
    assert parts["serves"] == [f"chat at {URL}, speed not measured", f"code at {URL}, failed, speed not measured"]
    assert code == 2 and "code" in " ".join(parts["wrong"])
    library = _cli.__name__.rpartition(".")[0]
    monkeypatch.setattr(
        _cli_state, "import_from_benchmark_archive", lambda module: importlib.import_module(f"{library}.{module}")
    )
    document = run_document.load_document("docs/runs/two-cores.json.gz")
    folder = screen.root / _cli_state.BENCHMARK_FOLDER.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    document["instance"] = "chat"
    (folder / "chat-20261130T000000Z.json").write_text(json.dumps(document))
    chat = screen.show()[1]["serves"][0]
    assert chat.startswith(f"chat at {URL}, ") and f" tokens/s on {document['started'][:10]}" in chat, chat
