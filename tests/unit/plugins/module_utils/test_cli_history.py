# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history as the command on the host shows it, and what a run that did not end has to do with other commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HISTORY, REQUESTS, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file, run
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

BALANCING = "/proc/sys/kernel/numa_balancing"
Command = Callable[..., tuple[int, str, str]]
#: The first line of each command.
DID_NOT_END = "The run of site.yml that ops@ctl began on 2026-11-29 at 09:10 UTC did not end: it was to do numa, cat."


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of a small machine on which one setting is stored and not in force."""
    tree = hosts.small(tmp_path)
    tree.put(BALANCING, 1)
    tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
    made = Store(str(tmp_path))
    Ledger(made, tree.fs).ensure_files()
    made.save_document(REQUESTS, {"intent": {}, "requests": {"sysfs/numa": {"numa_balancing": False}}})
    monkeypatch.setattr(_cli, "KernelFS", lambda read_only=False: KernelFS(str(tmp_path), read_only=read_only))
    monkeypatch.setattr(_cli, "Store", lambda read_only=False: Store(str(tmp_path), read_only=read_only))
    for name in (run.ORIGIN, run.RUN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SUDO_USER", "anna")
    return made


@pytest.fixture
def command(store: Store, capsys: pytest.CaptureFixture[str]) -> Command:
    def run_command(*words: str) -> tuple[int, str, str]:
        code = _cli.main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_command


def begin(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a run begin that does not end."""
    with monkeypatch.context() as origin:
        origin.setenv(run.ORIGIN, '{"user": "ops", "controller": "ctl", "playbook": "site.yml"}')
        history_file.begin_run(store, ["numa", "cat"], ["numa", "cat"], 1795943400.0)
    monkeypatch.setattr(run, "GOES_ON", 0)


def test_the_version(command: Command) -> None:
    assert command("--version") == (0, f"sovereign-epyc {VERSION}\n", "")


def test_a_boot_that_set_something_is_a_line_and_one_that_did_not_is_none(command: Command) -> None:
    assert command("history") == (0, "No run is noted on this host.\n", "")
    command("apply")
    command("apply")
    dummy, page, errors = command("history")
    assert (len(page.splitlines()), errors) == (2, "")
    assert page.splitlines()[1].endswith(f"anna  sovereign-epyc apply  {VERSION}    numa 1            done")


def test_an_undo_is_a_line_and_the_history_stays_until_it_is_forgotten(command: Command, store: Store) -> None:
    command("apply")
    assert command("restore")[0] == 0
    document = json.loads(command("history", "--json")[1])
    assert [one["kind"] for one in document["runs"]] == ["boot", "restore"]
    assert document["runs"][1]["changed"]["numa"] >= 1
    assert (document["damage"], document["unfinished_run"]) == ([], None)
    assert command("history", "--forget") == (0, "2 runs forgotten\n", "")
    assert not Path(store.folder).exists()
    assert json.loads(command("history", "--forget", "--json")[1]) == {"forgotten": 0, "kept": 0}


@pytest.mark.parametrize("words", ["plan", "show", "history"])
def test_a_run_that_did_not_end_is_the_first_line(
    words: str, command: Command, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(command(words, "--json")[1])["unfinished_run"] is None
    begin(store, monkeypatch)
    code, page, dummy = command(words)
    assert (code, page.splitlines()[0].startswith(DID_NOT_END)) == (0, True)
    assert json.loads(command(words, "--json")[1])["unfinished_run"]["layers"] == ["numa", "cat"]


def test_it_is_not_forgotten(command: Command, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(store, monkeypatch)
    first, second = command("history", "--forget")[1].splitlines()
    assert (first, second.startswith("1 kept: ")) == ("0 runs forgotten", True)
    assert history_file.load_unfinished_run(store)


def test_damage_is_said_beside_what_is_whole(command: Command, store: Store) -> None:
    command("apply")
    file = Path(store.file_path(HISTORY))
    file.write_text(f"{{\n{file.read_text()}")
    code, page, errors = command("history")
    assert (code, len(page.splitlines())) == (0, 2)
    assert errors == f"{file}: line 1 is damaged, and is left out.\n"
    for words in ("plan", "show", "check", "apply"):
        assert command(words)[2] == ""


def test_somebody_who_may_not_read_it_gets_a_sentence(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*dummy: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    code, page, errors = command("history")
    assert (code, page) == (1, "")
    assert "history.jsonl cannot be read: Permission denied." in errors
