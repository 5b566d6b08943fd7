# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters that are left out, on a host whose boots take no time: what is measured when, and the way back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import ablation, boot_rounds
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import processes
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import trial
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.simulated import Simulated

NOHZ, ISOLATION = "cmdline:nohz_full", "cmdline:isolcpus"
TUNED: dict[str, str | None] = {
    NOHZ: "4-7",
    ISOLATION: "domain,4-7",
    "sysfs:numa_balancing": "0",
    "irq:41/affinity": "1",
}
KNOBS = [
    {"name": "boost", "class": schedule.LIVE, "settings": {"cpufreq:policy0/boost": "0"}, "arguments": []},
    {"name": "nohz_full", "class": schedule.REBOOT, "settings": {NOHZ: None}, "arguments": []},
    {"name": "isolcpus", "class": schedule.REBOOT, "settings": {ISOLATION: None}, "arguments": []},
]
#: What a boot parameter makes of the speed.
EFFECTS = {NOHZ: 0.06, ISOLATION: -0.07}


class Booting:
    """A host of which the next boot has what is configured; its boot service then configures the tuned state again."""

    def __init__(self, here: Measured, patch: pytest.MonkeyPatch) -> None:
        self.here = here
        self.patch = patch
        self.store = Store(here.service.tree.fs.root)
        self.running, self.configured = dict(TUNED), dict(TUNED)
        self.boot = 1
        #: What each boot ran without, and what the host says of a boot that cannot be had.
        self.booted: list[str] = []
        self.refused: dict[str, str] = {}
        self.calm = Simulated(self.level, noise=0.004)
        self.settled = 0
        self.failures: list[str] = []
        self.put()
        Path(self.store.folder).parent.mkdir(parents=True)
        patch.setattr(processes, "read_process_start_time", lambda fs, process: "9")
        patch.setattr(boot_rounds, "write_originals_in_undo_order", self.hold)
        patch.setattr(boot_rounds.fingerprint, "read_values_of_stored_settings", lambda host: dict(self.running))
        patch.setattr(boot_rounds, "judge_requests", lambda host, store, requests: [])
        patch.setattr(boot_rounds.apply_stored, "end_trial_and_apply_stored", lambda store, fs: self.settle())
        patch.setattr(boot_rounds.command, "try_command", lambda words, seconds=None: None)
        patch.setattr(boot_rounds.command, "run_command", self.unit_starts)
        patch.setattr(boot_rounds.restore_guard.os.path, "exists", lambda path: True)
        patch.setattr(boot_rounds, "Meter", lambda *dummy: self)
        patch.setattr(ablation.removable_options, "list_removable_options", lambda target, host: [])
        patch.setattr(
            ablation.removable_settings,
            "list_removable_settings",
            lambda host, store, reboots: (KNOBS if reboots else KNOBS[:1], {}),
        )

    def put(self) -> None:
        self.here.service.tree.put(trial.BOOT_ID, f"boot-{self.boot}")

    def level(self, arm: Mapping[str, Any]) -> float:
        return math.fsum(math.log1p(gain) for address, gain in EFFECTS.items() if self.running[address] is not None)

    def unit_starts(self, words: list[str]) -> str:
        assert words == ["systemctl", "start", "llama-chat.service"]
        return ""

    def hold(self, store: Store, host: object, wanted: Mapping[str, str | None]) -> None:
        assert store.load_document(TRIAL)["boot_id"] == f"boot-{self.boot}", "the journal comes first"
        for address in wanted:
            if address in self.refused:
                raise TuningError(self.refused[address])
        self.configured.update(wanted)

    def settle(self) -> Booting:
        self.settled += 1
        self.configured = dict(TUNED)
        self.store.remove_file(TRIAL)
        return self

    def reboot(self) -> None:
        """Boot what is configured; the boot service puts the stored settings back, as after a power cut."""
        self.boot += 1
        self.put()
        self.running, self.configured = dict(self.configured), dict(TUNED)
        self.running["irq:42/affinity"] = self.running.pop("irq:41/affinity", "1")
        gone = [address.partition(":")[2] for address in (NOHZ, ISOLATION) if self.running[address] is None]
        self.booted.append(" ".join(gone) or "tuned")
        trial.remove_trial_of_earlier_boot(self.store, self.here.service.tree.fs)

    # The meter

    def warm_up_and_report_instability(self) -> str:
        return ""

    def measure_samples(self, where: dict[str, Any], requests: int, settings: str, digest: Any) -> Any:
        assert settings == digest()
        return self.calm.measure_samples(where, requests, settings, digest)

    # What the controller does

    def begin(self, **options: Any) -> str:
        """The part of the ablation without boots."""
        with pytest.MonkeyPatch.context() as patch:
            Simulated(lambda arm: 0.0).take_over(patch)
            wanted = ablation.AblationRequest({"seed": 3, "rounds": 4, "reboots": True, **options})
            path, document = ablation.run_ablation(
                self.here.host(), MeasuringRequest({"streams": []}), wanted, lambda line: None
            )
        assert (document["ended"], document["restored"]) == (None, None)
        return path

    def call(self, path: str, booted: Any, stop: bool = False, most: int = 8) -> Any:
        one = boot_rounds.BootRounds(self.here.host(), self.store, path, MeasuringRequest({"streams": []}), most)
        return one.continue_after_boot(booted, stop, lambda line: None)

    def until(self, path: str, *arms: str) -> Any:
        """Go on until the next boot is that of one of these arms; return what the controller is told."""
        booted = self.call(path, None)
        for dummy in range(20):
            if booted["arm"] in arms:
                return booted
            self.reboot()
            booted = self.call(path, booted)
        raise AssertionError(f"no boot of {arms}")

    def all(self, path: str, booted: Any = None, most: int = 8, stop: bool = False) -> dict[str, Any]:
        """Reboot and call until there is nothing to reboot for; return the document."""
        booted = self.call(path, booted, stop, most)
        while booted:
            self.reboot()
            booted = self.call(path, booted, stop, most)
        return dict(json.loads(Path(path).read_text()))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Booting]:
    with measured(tmp_path, monkeypatch) as here:
        yield Booting(here, monkeypatch)


def words(document: Mapping[str, Any]) -> dict[str, str]:
    return {one.knob: one.word for one in Judgement(document).verdicts}


def test_each_boot_counts_once_and_the_verdicts_are_those_of_any_run(host: Booting) -> None:
    document = host.all(host.begin(), most=10)
    found = words(document)
    assert (found["nohz_full"], found["isolcpus"]) == ("pays", "hurts")
    order = [one for one in document["plan"]["order"] if one["class"] == schedule.REBOOT]
    assert len(order) >= 5 and {len(one["arms"]) for one in order} <= {3, 4}
    # Stock has the boot parameters, so it needs no boot; of two rounds, the second goes backwards.
    assert set(order[0]["arms"]) == {"tuned", "again", "without nohz_full", "without isolcpus"}
    assert order[1]["arms"] == order[0]["arms"][::-1]
    here = [one for one in document["samples"] if one["round"] in {row["round"] for row in order}]
    boots_of: dict[tuple[int, str], set[str]] = {}
    for one in here:
        boots_of.setdefault((one["round"], one["arm"]), set()).add(one["witness"]["boot_id"])
    assert {len(some) for some in boots_of.values()} == {1}
    assert len(set.union(*boots_of.values())) == len(boots_of) == sum(len(one["arms"]) for one in order)
    assert not Judgement(document).faults and all(not one.discard_reason for one in Judgement(document).rounds)
    assert document["restored"] is True and document["ended"]
    assert "tuned over itself, reboot" in run_report.render_run_report(
        document
    ) and "n: rounds, starts or boots" in run_report.render_run_report(document)


def test_at_the_end_the_kernel_runs_as_it_was_tuned(host: Booting) -> None:
    document = host.all(host.begin(), most=5)
    assert document["restored"] is True and host.booted[-1] == "tuned"
    assert (host.running[NOHZ], host.running[ISOLATION]) == (TUNED[NOHZ], TUNED[ISOLATION])
    assert not host.store.has_file(TRIAL)


def test_the_words_of_a_run_whose_boots_did_not_come_yet(host: Booting) -> None:
    document = json.loads(Path(host.begin()).read_text())
    assert words(document)["nohz_full"] == "not tested"
    (stock,) = (arm for arm in document["plan"]["arms"] if arm["name"] == schedule.STOCK)
    assert stock["class"] == schedule.LIVE and stock["settings"] == KNOBS[0]["settings"]
    assert schedule.REBOOT not in {one["class"] for one in document["plan"]["order"]}


def test_boot_parameters_alone_are_compared_with_stock_too(host: Booting) -> None:
    document = host.all(host.begin(knobs=["nohz_full", "isolcpus"]), most=5)
    (stock,) = (arm for arm in document["plan"]["arms"] if arm["name"] == schedule.STOCK)
    assert (stock["class"], stock["settings"]) == (schedule.REBOOT, {NOHZ: None, ISOLATION: None})
    assert "nohz_full isolcpus" in host.booted and len(document["plan"]["order"]) == 5


def test_no_reboot_is_a_failure_and_stopping_puts_all_back(host: Booting) -> None:
    path = host.begin()
    booted = host.until(path, "without nohz_full", "without isolcpus")
    assert host.store.has_file(TRIAL) and host.configured != TUNED
    with pytest.raises(TuningError, match="has not rebooted"):
        host.call(path, booted)
    # The kernel was not booted without it, so that no boot is needed.
    assert host.call(path, None, stop=True) is None
    assert host.configured == TUNED and not host.store.has_file(TRIAL)
    assert json.loads(Path(path).read_text())["restored"] is True
    with pytest.raises(BadRequest, match="has ended: begin another one"):
        host.call(path, None)


def test_stopping_in_a_boot_without_something_needs_one_more(host: Booting) -> None:
    path = host.begin()
    host.until(path, "without nohz_full", "without isolcpus")
    host.reboot()
    assert host.booted[-1] != "tuned"
    assert host.call(path, None, stop=True)["arm"] == ""
    document = host.all(path, stop=True)
    assert document["restored"] is True and host.booted[-1] == "tuned"


def test_after_a_power_cut_the_run_goes_on(host: Booting) -> None:
    """The controller lost what it was told: the arm is booted again, and no sample is there twice."""
    path = host.begin()
    booted = host.until(path, "without nohz_full", "without isolcpus")
    host.reboot()  # The power cut, in which what was configured is used up.
    assert not host.store.has_file(TRIAL)
    again = host.call(path, None)
    assert (again["round"], again["arm"]) == (booted["round"], booted["arm"])
    host.reboot()
    document = host.all(path, again, most=5)
    assert document["restored"] is True
    rows = [one for one in document["plan"]["order"] if one["class"] == schedule.REBOOT]
    assert len(rows) == 5 and all(not one.discard_reason for one in Judgement(document).rounds)


def test_what_the_boot_does_not_bring_is_rejected(host: Booting) -> None:
    host.refused[ISOLATION] = "update-grub failed."
    path = host.begin()
    booted = host.until(path, "without nohz_full")
    host.configured = dict(TUNED)  # The boot loader has something else than was written.
    host.reboot()
    document = host.all(path, booted)
    assert document["plan"]["rejected"] == {
        "isolcpus": "update-grub failed.",
        "nohz_full": "cmdline:nohz_full is 4-7 in this boot, and should be None.",
    }
    assert words(document)["nohz_full"] == "rejected" and host.settled


def test_a_tuned_boot_that_is_not_tuned_ends_it(host: Booting) -> None:
    path = host.begin()
    booted = host.until(path, "tuned", "again")
    host.reboot()
    host.running["sysfs:numa_balancing"] = "1"
    with pytest.raises(
        TuningError, match="cannot be measured: sysfs:numa_balancing is 1 in this boot, and should be 0"
    ):
        host.call(path, booted)
    assert host.call(path, None, stop=True) is None
    document = json.loads(Path(path).read_text())
    assert document["restored"] is False and "Run site.yml, and reboot.yml." in document["remarks"][-1]


def test_invalid_calls_are_refused(host: Booting) -> None:
    path = host.begin()
    with pytest.raises(BadRequest, match="boots: 4 is out of range; give at least 5"):
        host.call(path, None, most=4)
    with pytest.raises(BadRequest, match="asks other prompts"):
        boot_rounds.BootRounds(host.here.host(), host.store, path, MeasuringRequest({"kinds": ["prose"]}), 5)
    with pytest.raises(BadRequest, match="waits for no stock"):
        host.call(path, {"round": 1, "arm": "stock", "boot_id": "before"})
    host.store.save_document(TRIAL, {"boot_id": f"boot-{host.boot}", "process": 1, "started": "1", "unit": "x"})
    with pytest.raises(BadRequest, match="did not end, or goes on"):
        host.call(path, None)
