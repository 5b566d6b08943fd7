# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command on the host: what it says, what it writes, and its exit codes. tests/lab runs it on a kernel."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import BOOT_SERVICE_LINK
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS, sort_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks, hosts

BALANCING = "/proc/sys/kernel/numa_balancing"
DEFAULT = "/proc/irq/default_smp_affinity"
INTENT = {"housekeeping": {"cores": 1, "per": "node"}}
REQUESTS: dict[str, Any] = {"sysfs/numa": {"numa_balancing": False}}


class Machine:
    """A small machine on which one setting is stored and not in force, and the command that is run on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tree = hosts.small(root)
        self.tree.put(BALANCING, 1)
        self.tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.tree.put(BOOT_SERVICE_LINK, "[Unit]")
        self.store = Store(str(root))
        self.capsys = capsys
        Ledger(self.store, self.tree.fs).ensure_files()
        self.ask(REQUESTS)

    def ask(self, requests: dict[str, Any]) -> None:
        self.store.save_document("desired.json", {"intent": INTENT, "requests": requests})

    def run(self, *words: str) -> tuple[int, str, str]:
        code = _cli.main(words)
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def balancing(self) -> str:
        return self.tree.fs.read(BALANCING)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    def tree(read_only: bool = False) -> KernelFS:
        return KernelFS(str(tmp_path), read_only=read_only)

    def store(read_only: bool = False) -> Store:
        return Store(str(tmp_path), read_only=read_only)

    monkeypatch.setattr(_cli, "KernelFS", tree)
    for place in (_cli, survey):
        monkeypatch.setattr(place, "Store", store)
    return Machine(tmp_path, capsys)


@pytest.mark.parametrize(
    "words", [("--json",), ("undo",), ("check", "apply"), ("check", "--textfile"), ("apply", "--verbose")]
)
def test_what_it_does_not_know_is_answered_by_its_usage(machine: Machine, words: tuple[str, ...]) -> None:
    assert machine.run(*words) == (1, "", _cli.USAGE)


def test_the_plan_of_the_stored_intent(machine: Machine) -> None:
    code, page, errors = machine.run("plan")
    assert (code, errors) == (0, "")
    assert "housekeeping    4 CPUs   0,4,8,12" in page
    assert json.loads(machine.run("plan", "--json")[1])["plan"]["cpus"]["housekeeping"] == "0,4,8,12"


def test_a_check_tells_by_its_exit_code_and_changes_nothing(machine: Machine) -> None:
    assert machine.run("check") == (
        2,
        "NUMA balancing: found 1, wanted 0. Run site.yml --tags numa.\n2 settings checked, 1 not as configured\n",
        "",
    )
    assert machine.balancing() == "1"
    machine.tree.put(BALANCING, 0)
    assert machine.run("check")[:2] == (0, "2 settings checked, 0 not as configured\n")
    told = json.loads(machine.run("check", "--json")[1])
    assert [(row["address"], row["live"]) for row in told["settings"]] == [("sysfs:numa_balancing", "ok")]
    assert told["findings"] == [] and told["coverage"].keys() == {"sysfs", "boot"}, "the boot service counts too"


def test_a_check_names_the_reason_of_what_is_unknown(machine: Machine) -> None:
    machine.ask({"colour/colour": {}})
    code, page, _errors = machine.run("check")
    assert code == 2
    assert "colour: unknown: this version of the collection has no knob colour. Run site.yml.\n" in page
    machine.ask({"msr/msr": {"settings": [{"cpus": "all", "dc_cfg": {"hardware_prefetch": "disabled"}}]}})
    (line, counted) = machine.run("check")[1].splitlines()
    assert line.startswith("prefetchers: not supported here: bit 13 of register 0xc0011022 (DC_CFG) is documented for")
    assert line.endswith(". No command gives a host what it cannot have: change what the inventory asks for.")
    assert counted == "2 settings checked, 1 not as configured"
    machine.ask({})
    assert machine.run("check")[1].startswith("stored requests: unknown: nothing is stored on this host: ")


def test_a_check_writes_metrics_also_of_one_that_could_not_be_made(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "epyc.prom"
    assert machine.run("check", "--textfile", str(file))[0] == 2
    assert "sovereign_epyc_check_success 1" in file.read_text()
    (tmp_path / "var/lib/sovereign-epyc/desired.json").write_text("{")
    code, _page, errors = machine.run("check", "--textfile", str(file))
    assert (code, file.read_text().splitlines()[-1]) == (1, "sovereign_epyc_check_success 0")
    assert "Move it away, and run site.yml" in errors


HOSTILE = "\x1b]0;x\x07\u202e\r\x7f\n<0>"


@pytest.mark.parametrize("command", ["check", "show", "plan", "apply", "repair", "restore"])
def test_nothing_that_a_terminal_would_obey_is_printed(machine: Machine, command: str) -> None:
    """Whatever a person, a file or the kernel has named; JSON stays JSON."""
    machine.ask({f"colour/{HOSTILE}": {}, "irq/irq": {"cpus": HOSTILE}, **REQUESTS})
    machine.tree.put(BALANCING, f"1{HOSTILE}")
    for words in ([command, "--json"], [command]):
        dummy, out, errors = machine.run(*words)
        text = out + errors
        assert not set(text) & set(HOSTILE) - set("]0;x<>\n") and "\n<0>" not in text, text
        if words[1:] and out:
            assert json.loads(out)


def test_what_is_named_so_is_shown_by_its_escapes(machine: Machine) -> None:
    machine.ask({f"colour/{HOSTILE}": {}})
    assert f"colour/{HOSTILE}" in json.loads(machine.run("show", "--json")[1])["requests"]
    assert r"request colour/\x1b]0;x\x07\u202e\r\x7f\n<0>: {}" in machine.run("show")[1].splitlines()


def test_apply_tells_what_it_did_though_the_journal_of_a_trial_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.store.save_document("trial.json", {"boot_id": "earlier"})
    disks.refuse_changes(monkeypatch, machine.store.folder, errno.EPERM, "trial.json")
    code, page, errors = machine.run("apply")
    assert (code, page) == (1, "sysfs:numa_balancing: 1 -> 0\n1 settings changed, 1 requests failed\n")
    assert "trial.json cannot be removed: Operation not permitted" in errors


@pytest.mark.parametrize("words", ["plan", "check", "apply", "repair", "show", "settle", "restore"])
def test_a_store_that_is_a_link_to_nothing_is_told_at_once(machine: Machine, words: str, tmp_path: Path) -> None:
    folder = Path(machine.store.folder)
    folder.rename(tmp_path / "away")
    folder.symlink_to("/data/epyc")
    code, page, errors = machine.run(words)
    assert (code, page) == (1, "")
    assert errors.startswith(f"{folder} is a link to /data/epyc, where nothing is. Nothing was changed. Mount")


def test_apply_show_and_restore(machine: Machine) -> None:
    assert machine.run("apply") == (0, "sysfs:numa_balancing: 1 -> 0\n1 settings changed, 0 requests failed\n", "")
    assert machine.balancing() == "0"
    assert machine.run("apply")[1] == "0 settings changed, 0 requests failed\n"
    drawn, dummy, stored = machine.run("show")[1].partition(
        f"\n\nversion: {VERSION}, newest run of site.yml: none\nintent: "
    )
    assert "  CCD  0  L3   0  hvvv  0-3" in drawn.splitlines()
    assert f"intent: {stored}".splitlines() == [
        f"intent: {INTENT}",
        "request sysfs/numa: {'numa_balancing': False}",
        "original sysfs:numa_balancing: 1",
    ]
    shown = json.loads(machine.run("show", "--json")[1])
    assert shown["originals"] == {"sysfs:numa_balancing": "1"}
    assert (shown["version"], shown["site_version"]) == (VERSION, "")
    code, page, _errors = machine.run("restore", "--json")
    assert code == 0
    assert {"address": "sysfs:numa_balancing", "before": "0", "after": "1"} in json.loads(page)["changes"]
    assert machine.balancing() == "1"
    assert machine.run("show")[1].endswith("run of site.yml: none\nintent: none\n")


def test_the_map_has_colours_on_a_terminal_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plain = machine.run("show")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\033[30;47mh\033[0m" in machine.run("show")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert machine.run("show")[1] == plain and "\033" not in plain


def test_what_is_stored_is_shown_where_nothing_can_be_drawn(machine: Machine) -> None:
    machine.store.save_document("desired.json", {"intent": {"draft": {"ccds": 99}}, "requests": REQUESTS})
    code, page, errors = machine.run("show")
    assert (code, errors) == (0, "")
    assert page.startswith("There is no map of this host: draft asks for 99 ccds")
    assert "request sysfs/numa" in page


def test_a_request_that_fails_does_not_keep_the_others_from_being_made(machine: Machine) -> None:
    machine.ask({**REQUESTS, "colour/colour": {}, "sysfs/a": {"thp": "always"}})
    code, page, errors = machine.run("apply")
    assert (code, page.splitlines()[-1]) == (1, "1 settings changed, 2 requests failed")
    assert machine.balancing() == "0"
    assert errors.startswith(f"{_cli.ERROR}sysfs/a: ")
    assert f"{_cli.ERROR}colour/colour: This version of the collection has no knob colour." in errors


def test_watch_makes_the_requests_for_interrupts_only_and_says_a_failure_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned: list[tuple[int, ...]] = []
    monkeypatch.setattr(_cli.new_interrupts, "yield_when_irqs_may_be_new", lambda follows: iter([True, True]))
    monkeypatch.setattr(
        _cli.new_interrupts.os, "sched_setaffinity", lambda process, cpus: pinned.append((process, *cpus))
    )
    machine.ask({**REQUESTS, "irq/irq": {"cpus": "nowhere"}})
    code, page, errors = machine.run("watch")
    assert (code, page) == (0, "0 settings changed, 1 requests failed\n")
    assert errors.count("irq/irq: 'nowhere' names no CPUs") == 1
    # Each look runs on the CPUs that the plan keeps for the system, however many interrupts there are.
    assert pinned == [(0, 0, 4, 8, 12)] * 2
    assert machine.balancing() == "1"


def test_what_was_edited_by_hand_fails_by_itself(machine: Machine) -> None:
    """A traceback would keep all later layers from being set at boot."""
    machine.ask({**REQUESTS, "hugepages/hugepages": {"pools": 5}, "cpufreq/cpufreq": {"settings": [None]}})
    code, page, errors = machine.run("apply")
    assert (code, page.splitlines()[-1]) == (1, "1 settings changed, 2 requests failed")
    assert machine.balancing() == "0"
    assert "hugepages/hugepages: the stored options {'pools': 5} cannot be used" in errors
    assert "Traceback" not in errors


def test_what_this_host_cannot_have_is_told_and_is_no_failure(machine: Machine) -> None:
    """Else a kernel without resctrl, or a locked-down one, leaves the whole system degraded after every boot."""
    machine.tree.put("/proc/filesystems", "nodev\tsysfs")
    machine.ask({**REQUESTS, "resctrl/resctrl": {"mount": True}})
    code, page, errors = machine.run("apply")
    assert (code, page.splitlines()[-1]) == (0, "1 settings changed, 0 requests failed")
    assert errors.startswith("resctrl/resctrl: resctrl is absent")


def test_what_comes_late_at_boot_is_tried_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel module that is loaded after the service has begun."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            machine.tree.put(thp, "always [madvise] never")

    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    Path(machine.tree.root, thp.lstrip("/")).unlink(missing_ok=True)
    machine.ask({**REQUESTS, "sysfs/a": {"thp": "madvise"}})
    monkeypatch.setattr(_cli.time, "sleep", sleep)
    assert machine.run("apply")[0] == 1
    assert machine.run("apply", "--retry")[:2] == (0, "0 settings changed, 0 requests failed\n")
    assert waits == [_cli.PAUSE] * 2
    # What never comes does not hold up the boot for ever.
    machine.ask({"colour/colour": {}})
    assert machine.run("apply", "--retry")[0] == 1
    assert len(waits) == 2 + _cli.RETRIES


def test_requests_are_read_by_who_has_the_lock(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo that ran while this waited for the lock has forgotten them."""
    lock = Store.hold_lock

    @contextmanager
    def late(store: Store) -> Iterator[None]:
        monkeypatch.setattr(Store, "hold_lock", lock)
        assert machine.run("restore")[0] == 0
        with lock(store):
            yield

    monkeypatch.setattr(Store, "hold_lock", late)
    assert machine.run("apply")[:2] == (0, "0 settings changed, 0 requests failed\n")
    assert machine.balancing() == "1"


def test_smt_is_switched_before_all_that_is_about_cpus() -> None:
    requests = {"sysfs/irq": {"workqueue_cpus": "0"}, "sysfs/numa": {"smt": "off"}, "irq/irq": {}}
    assert [f"{name}/{label}" for name, label, dummy in sort_requests(requests)] == [
        "sysfs/numa",
        "sysfs/irq",
        "irq/irq",
    ]


def test_between_two_looks_only_threads_are_followed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Engine:
        @staticmethod
        def build_thread_knobs(host: Host, options: dict[str, Any]) -> list[Knob]:
            asked.append(options)
            return []

    follows: list[bool] = []

    def moments(names_units: Callable[[], bool]) -> Iterator[bool]:
        follows.append(names_units())
        yield False

    group = {"groups": [{"name": "draft", "tasks_of": ["llama.service"]}]}
    monkeypatch.setattr(KNOBS["resctrl"], "_load", lambda: Engine)
    monkeypatch.setattr(_cli.new_interrupts, "yield_when_irqs_may_be_new", moments)
    for requests in ({**REQUESTS, "irq/irq": {"cpus": "nowhere"}}, {**REQUESTS, "resctrl/resctrl": group}):
        machine.ask(requests)
        assert machine.run("watch") == (0, "", "")
    assert (follows, asked, machine.balancing()) == ([False, True], [group], "1")
