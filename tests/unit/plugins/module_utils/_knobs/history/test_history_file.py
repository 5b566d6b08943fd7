# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host: runs of several controllers, runs without an end, damage, bounds, and what forgets it."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HISTORY, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file, run, table
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks

ALL = ("base", "numa", "cat")
BALANCING, MASK = "sysfs:numa_balancing", "resctrl:draft/L3/0"
#: 2026-11-29 at 09:10 UTC.
MORNING = 1795943400.0


class Host:
    """A host on which controllers run site.yml; each run begins an hour after the one before."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "var/lib").mkdir(parents=True)
        self.store = Store(str(root))
        self.file = root / "var/lib/sovereign-epyc" / HISTORY
        self.patch = monkeypatch
        self.now = MORNING - 3600
        for name in (run.ORIGIN, run.RUN, "SUDO_USER"):
            monkeypatch.delenv(name, raising=False)
        self.controller = "ctl"

    def come_from(self, controller: str, user: str = "ops", **more: Any) -> None:
        """Have what follows come from a controller, where root is the user on the host."""
        self.controller = controller
        origin = {"user": user, "controller": controller, "playbook": "site.yml", **more}
        self.patch.setenv(run.ORIGIN, json.dumps(origin))

    def begin(self, layers: Sequence[str] = ALL, requested: Sequence[str] = ALL) -> str:
        self.now += 3600
        begun = history_file.begin_run(self.store, layers, requested, self.now)
        self.patch.setenv(run.RUN, begun.id)
        return begun.id

    def site(self, *addresses: str, layers: Sequence[str] = ALL, requested: Sequence[str] = ALL) -> None:
        """Run site.yml to its end."""
        run_id = self.begin(layers, requested)
        assert history_file.add_change_counts_to_run(self.store, addresses) == ""
        assert history_file.end_run(self.store, run_id, self.now + 90)[1] == ""
        self.patch.delenv(run.RUN)

    def restore(self, *addresses: str, layers: Sequence[str] = ()) -> None:
        self.now += 3600
        assert (
            history_file.record_finished_run(self.store, history_file.RESTORE, addresses, layers=layers, now=self.now)
            == ""
        )

    def runs(self) -> list[run.Run]:
        return history_file.History(self.store).runs

    def lines(self) -> list[str]:
        return table.render_table(history_file.History(self.store).notable_runs())

    def unfinished(self) -> str:
        found = history_file.load_unfinished_run(self.store)
        return found.unfinished_message(self.now + 86400) if found else ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path, monkeypatch)
    made.come_from("ctl")
    return made


def test_ten_runs_of_three_controllers_are_listed_after_an_upgrade_and_a_restore_too(host: Host) -> None:
    for turn in range(8):
        host.come_from(f"ctl-{turn % 3}", f"user{turn % 3}", tags=["cat"] if turn == 4 else [])
        if turn == 5:
            host.patch.setattr(run, "VERSION", "9.9.9")
        host.site(BALANCING, *([MASK] * turn))
    host.patch.setenv("SUDO_USER", "deploy")
    host.come_from("ctl-1", playbook="restore.yml")
    host.restore(BALANCING)
    host.patch.delenv(run.ORIGIN)
    host.patch.setenv("SUDO_USER", "anna")
    assert history_file.record_finished_run(host.store, history_file.REPAIR, [MASK], now=host.now + 60) == ""
    root = host.runs()[0].host_user
    expected = [
        f"began (UTC)          took  who                  what                    version  settings changed{'':6}end",
        *(
            f"2026-11-29 {9 + turn:02}:10:00  90 s  user{turn % 3}@ctl-{turn % 3} as {root}  "
            f"{'site.yml --tags cat' if turn == 4 else 'site.yml':<22}  {'9.9.9' if turn > 4 else VERSION}    "
            f"{f'numa 1, cat {turn}' if turn else 'numa 1':<16}  done"
            for turn in range(8)
        ),
        "2026-11-29 17:10:00  -     ops@ctl-1 as deploy  restore.yml             9.9.9    numa 1            done",
        "2026-11-29 17:11:00  -     anna                 sovereign-epyc repair   9.9.9    cat 1             done",
    ]
    squeezed = [" ".join(line.split()) for line in host.lines()]
    assert squeezed == [" ".join(line.split()) for line in expected]
    ends = [line.rindex(" done") for line in host.lines()[1:]]
    assert len(set(ends)) == 1, "the columns are aligned"
    assert host.unfinished() == ""


def test_a_run_that_was_killed_is_the_one_without_an_end(host: Host) -> None:
    host.site(BALANCING)
    host.begin()
    history_file.add_change_counts_to_run(host.store, [BALANCING])
    assert host.unfinished() == (
        "the run of site.yml that ops@ctl began on 2026-11-29 at 10:10 UTC did not end: it was to do base, numa, cat"
    )
    assert host.lines()[-1].endswith("numa 1            did not end, left base, numa, cat")
    found = history_file.load_unfinished_run(host.store)
    assert found and ", unless it still goes on: " in found.unfinished_message(host.now + 60)
    assert history_file.load_requested_layers(host.store) == [*ALL]
    host.site()
    assert host.unfinished() == ""
    assert host.lines()[-1].endswith("did not end, done since"), "the run that made up for it changed nothing"


def test_a_killed_run_is_done_with_once_later_runs_have_done_all_its_layers(host: Host) -> None:
    host.begin()
    host.site(MASK, layers=["cat"])
    assert host.lines()[1].endswith("did not end, left base, numa")
    host.site(layers=["numa"])
    host.site(layers=["numa"])
    assert host.lines()[1].endswith("did not end, left base")
    host.restore(layers=["base"])
    assert host.unfinished() == ""


def test_a_whole_run_of_other_layers_is_enough(host: Host) -> None:
    """Somebody took the layer that failed out of epyc_steps."""
    host.begin()
    host.site(layers=["base"], requested=["base"])
    assert (host.unfinished(), history_file.load_requested_layers(host.store)) == ("", ["base"])


def test_an_undo_ends_what_was_asked_for(host: Host) -> None:
    assert history_file.load_requested_layers(host.store) is None
    host.begin()
    host.restore(layers=["cat"])
    assert history_file.load_requested_layers(host.store) == [*ALL]
    assert host.unfinished()
    host.restore()  # Nothing had been changed yet.
    assert (host.unfinished(), history_file.load_requested_layers(host.store)) == ("", None)


def test_what_changed_nothing_leaves_no_line(host: Host) -> None:
    host.restore()
    assert history_file.record_finished_run(host.store, history_file.BOOT, []) == ""
    assert not host.file.exists()
    host.site(BALANCING)
    for dummy in range(3):
        host.site()
    host.site(MASK)
    assert [one.changed for one in host.runs()] == [{"numa": 1}, {"cat": 1}]


def test_a_module_counts_in_the_run_that_it_belongs_to_only(host: Host) -> None:
    run_id = host.begin()
    host.patch.delenv(run.RUN)
    assert history_file.add_change_counts_to_run(host.store, [MASK]) == "", "a playbook of somebody's own"
    host.patch.setenv(run.RUN, run_id)
    assert (
        history_file.add_change_counts_to_run(host.store, [BALANCING, "sysfs:workqueue/cpumask", "desired:sysfs/irq"])
        == ""
    )
    assert (
        history_file.add_change_counts_to_run(
            host.store, ["sysfs:thp/enabled", "llama:/etc/systemd/system/llama-a.service"]
        )
        == ""
    )
    assert host.runs()[-1].changed == {"numa": 2, "irq": 2, "llama": 1}
    history_file.end_run(host.store, run_id)
    assert "has no begin of this run any more" in history_file.add_change_counts_to_run(host.store, [MASK])
    assert "has no begin of this run any more" in history_file.end_run(host.store, run_id)[1]


def test_two_runs_at_a_time_are_told_apart(host: Host) -> None:
    one, other = host.begin(), host.begin()
    for run_id, address in ((one, MASK), (other, BALANCING)):
        host.patch.setenv(run.RUN, run_id)
        history_file.add_change_counts_to_run(host.store, [address])
        history_file.end_run(host.store, run_id)
    assert [one.changed for one in host.runs()] == [{"cat": 1}, {"numa": 1}]


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        '{"id": 1, "kind": "site", "began": "x"}',
        "\x00",
        "[" * 100000,
        '{"id": "a", "kind": "site"}',
        "\udc80",
    ],
)
def test_a_damaged_line_is_said_and_hides_no_other(host: Host, bad: str) -> None:
    host.site(BALANCING)
    with open(host.file, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{bad}\n")
    host.site(MASK)
    found = history_file.History(host.store)
    assert [one.changed for one in found.runs] == [{"numa": 1}, {"cat": 1}]
    assert found.damage == [f"{host.file}: line 2 is damaged, and is left out."]
    assert bad.encode(errors="surrogateescape") in host.file.read_bytes(), "it stays for whoever wants to look at it"
    history_file.remove_needless_runs(host.store)
    assert history_file.History(host.store).damage == []


def test_a_file_that_cannot_be_read_hinders_no_look_and_no_undo(host: Host) -> None:
    host.store.save_document("other.json", {})
    host.file.mkdir()
    assert history_file.load_unfinished_run(host.store) is None
    assert history_file.load_requested_layers(host.store) is None
    with pytest.raises(TuningError) as caught:
        history_file.History(host.store)
    assert str(host.file) in str(caught.value)
    for kind in (history_file.RESTORE, history_file.REPAIR, history_file.BOOT):
        assert str(host.file) in history_file.record_finished_run(host.store, kind, [MASK])
    with pytest.raises(TuningError, match="no ordinary file"):
        host.begin()


def test_only_root_can_read_it_and_a_file_of_others_is_refused(host: Host) -> None:
    host.site(BALANCING)
    assert stat.S_IMODE(host.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(host.file.parent.stat().st_mode) == 0o700
    host.file.chmod(0o666)
    with pytest.raises(TuningError, match="chmod 600"):
        host.runs()


def test_a_full_disk_loses_no_line(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.site(BALANCING)
    before = host.file.read_text()
    run_id = host.begin()
    begun = host.file.read_text()
    with monkeypatch.context() as full:
        disks.refuse_changes(full, host.file.parent, errno.ENOSPC)
        assert "No space left on device" in history_file.add_change_counts_to_run(host.store, [MASK])
        with pytest.raises(TuningError, match="No space left"):
            history_file.end_run(host.store, run_id)
    assert host.file.read_text() == begun != before


def test_it_is_bounded_and_what_was_asked_for_stays(host: Host) -> None:
    host.site(BALANCING)
    for turn in range(history_file.MOST_OF_KIND[history_file.BOOT] + 5):
        history_file.record_finished_run(
            host.store, history_file.BOOT, [MASK] * turn or [BALANCING], now=host.now + turn
        )
    boots = [one for one in host.runs() if one.kind == history_file.BOOT]
    assert len(boots) == history_file.MOST_OF_KIND[history_file.BOOT]
    assert boots[-1].changed == {"cat": history_file.MOST_OF_KIND[history_file.BOOT] + 4}, "the oldest go"
    host.patch.setattr(history_file, "MOST_BYTES", 5000)
    host.restore(MASK, layers=["cat"])
    assert host.file.stat().st_size <= 5000
    assert history_file.load_requested_layers(host.store) == [*ALL]
    host.patch.setattr(history_file, "MOST", 3)
    host.restore(MASK, layers=["cat"])
    assert [one.kind for one in host.runs()] == ["site", "restore", "restore"]


def test_a_line_is_bounded_too(host: Host) -> None:
    host.come_from("c" * 9999, tags=["t" * 9999] * 99)
    host.site(BALANCING)
    (one,) = host.runs()
    assert (len(one.controller), len(one.tags), len(one.tags[0])) == (run.LONGEST, run.MOST_ENTRIES, run.LONGEST)


@pytest.mark.parametrize("text", ["{", "[]", '{"user": 3}', '{"tags": "cat"}', "null"])
def test_an_environment_that_says_something_else_says_nothing(host: Host, text: str) -> None:
    host.patch.setenv(run.ORIGIN, text)
    host.patch.setenv("SUDO_USER", "anna")
    host.site(BALANCING)
    assert host.runs()[0].starter_name() == "anna"


def test_names_cannot_command_a_terminal(host: Host) -> None:
    host.come_from("ctl", "ops\x1b[2J\n2026", playbook="\u202esite.yml")
    host.site(BALANCING)
    assert all(line.isprintable() for line in host.lines())
    assert len(host.lines()) == 2


def test_forgetting_keeps_what_was_asked_for_until_all_is_put_back(host: Host) -> None:
    host.site(BALANCING)
    host.begin()
    host.site(MASK, layers=["cat"])
    assert history_file.remove_needless_runs(host.store, check=True) == 1
    assert len(host.runs()) == 3
    assert history_file.remove_needless_runs(host.store) == 1
    assert host.unfinished() and history_file.load_requested_layers(host.store) == [*ALL]
    host.restore(BALANCING)
    assert history_file.remove_needless_runs(host.store) == 3
    assert not host.file.parent.exists()
    assert history_file.remove_needless_runs(host.store) == 0


def test_the_layers_are_those_of_the_catalogue() -> None:
    stored = {f"{row.name}/{label}": role for row in KNOBS.values() for label, role in row.roles.items()}
    assert {**stored, "intent": "plan"} == history_file.REQUESTS
    assert history_file.layer_of_address("desired:sysfs/mine") == history_file.OTHER
    for row in KNOBS.values():
        for begin, name in row._variables:
            if len(set(row.roles.values())) > 1:
                assert history_file.layer_of_address(f"{row.name}:{begin}") == name.split("_")[1], begin
            else:
                assert history_file.layer_of_address(f"{row.name}:{begin}") in row.roles.values(), row.name


def _kill_at_rename(*dummy: object, **more: object) -> None:
    os._exit(9)


@pytest.mark.parametrize("write", [history_file.begin_run, history_file.end_run])
def test_a_kill_amid_a_write_leaves_the_lines_before(host: Host, write: Callable[..., Any]) -> None:
    host.site(BALANCING)
    run_id = host.begin()
    before = host.file.read_text()
    child = os.fork()
    if child == 0:
        host.patch.setattr(os, "rename", _kill_at_rename)
        write(host.store, *([ALL, ALL] if write is history_file.begin_run else [run_id]))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert host.file.read_text() == before
    history_file.end_run(host.store, run_id)
    assert sorted(path.name for path in host.file.parent.iterdir()) == [HISTORY]
