# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole of playbooks/site.yml, on a bare machine and on one that it has tuned."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._setup import last_run
from tests.fixtures.virtual_epyc import guest_of
from vepyc.venvs import OLDEST_CORE, ensure_venv

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SITE = "playbooks/site.yml"
EVERY_MODULE = Path(__file__).with_name("every_module.yml")
CAT = "Partition the L3 caches"
LOOK, SAY = "Ask whether the last run still holds", "Say that nothing is left to do"
#: Has a run go through all layers though nothing is left to do. No task has that tag, but with tags it does not look.
THROUGH = ("--skip-tags", "never")
#: How often a run is killed before one that may go on to its end, and how many lines the record of a whole run has at
#: least, so that each moment of it may be the last.
KILLS = 30
LINES = 60
#: How many modules a host may execute for such a run. Two note its begin and its end.
MOST_MODULES = 13

LIVE = {
    "/proc/sys/kernel/numa_balancing": "0",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "/proc/irq/default_smp_affinity": "1111",
    "/sys/devices/virtual/workqueue/cpumask": "1111",
    "/sys/devices/virtual/workqueue/writeback/cpumask": "1111",
    "/sys/devices/system/cpu/cpufreq/boost": "1",
}


def waits_for_a_reboot(guest):
    return (
        f"{guest.machine.name} has to be rebooted before these boot parameters hold: nohz_full, rcu_nocbs, isolcpus, "
        "irqaffinity. Nothing reboots it by itself."
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The small machine, on which site.yml was killed at a random moment or more, and has then run to its end."""
    with guest_of("small", "site", tmp_path_factory.mktemp("site")) as guest:
        guest.carry_modules()
        guest.first = guest.everything()
        moments = random.Random(42)
        killed = [guest.kill_play(SITE, after=moments.randrange(LINES)) for dummy in range(KILLS)]
        assert killed.count(True) > KILLS / 2, "most runs are to be killed before their end"
        guest.play(SITE)
        yield guest


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A machine that nobody has tuned, with all that a check must leave alone.

    Its kernel shows the boost of one CPU only through a register, which a run sees once it has loaded the driver.
    """
    with guest_of("small", "bare", tmp_path_factory.mktemp("bare"), kernel="6.1") as guest:
        yield guest, guest.untouched()


@pytest.mark.parametrize("playbook", [SITE, EVERY_MODULE], ids=["site", "every-module"])
def test_check_of_a_bare_host_changes_nothing(playbook, bare):
    guest, before = bare
    play = guest.play(playbook, "--check", "--diff", "-e", '{"epyc_cpufreq_verify": {"boost": false}}')
    assert guest.touched_since(before) == set()
    # It did look, and saw all there is to do.
    assert play[CAT]["diff"]["changes"]["after"]["resctrl:mount"] == "no options"
    if playbook == SITE:
        assert guest.play(SITE, "--tags", "cat", "--check").changed_results.keys() == {
            CAT
        }  # also without the layers before it


def test_every_module_is_among_them():
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    used = re.findall(r"sovereign\.epyc\.(\w+):|# (epyc_\w+)$", EVERY_MODULE.read_text(), re.MULTILINE)
    assert {name for pair in used for name in pair if name} == modules


def test_run_tunes_the_host(tuned):
    assert {group: tuned.masks(group) for group in (".", "draft", "verify")} == {
        ".": {0: "f", 1: "f", 2: "f", 3: "f"},
        "draft": {0: "f", 1: "f", 2: "fff0", 3: "fff0"},
        "verify": {0: "fff0", 1: "fff0", 2: "f", 3: "f"},
    }
    assert tuned.read("draft", "cpus_list") == "9-11,13-15"
    assert tuned.read("verify", "cpus_list") == "1-3,5-7"
    assert tuned.run("grep -v '^#' /etc/modules-load.d/sovereign-epyc.conf").split() == ["cpuid", "msr"]
    tuned.run("test -c /dev/cpu/15/msr -a -c /dev/cpu/15/cpuid")
    assert tuned.run(f"cat {' '.join(LIVE)}").split("\n")[:-1] == list(LIVE.values())
    assert set(tuned.run("cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor").split()) == {"performance"}
    assert "isolcpus=managed_irq,1-3,5-7,9-11,13-15 " in tuned.run("cat /boot/grub/grub.cfg")


def test_what_is_stored_for_the_next_boot_agrees(tuned):
    """Two layers set files of one kind, and neither may replace what the other stored."""
    requests = json.loads(tuned.run("cat /var/lib/sovereign-epyc/desired.json"))["requests"]
    assert sorted(requests) == [
        "cmdline/cmdline",
        "cpufreq/cpufreq",
        "irq/irq",
        "resctrl/resctrl",
        "sysfs/irq",
        "sysfs/numa",
    ]
    # All is in force but the boot parameters, which wait for a reboot.
    checked = tuned.run("sovereign-epyc check", check=False).splitlines()[:-1]
    assert all(line.startswith("boot parameter, ") for line in checked), checked


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"epyc_plan_sku": "9654"}, ["AMD EPYC 9754", "EPYC 9654", "epyc_plan_sku_check"]),
        ({"epyc_steps": ["cat", "numma"]}, ["has numma", "did you mean numa"]),
    ],
    ids=["another SKU", "another layer"],
)
@pytest.mark.parametrize("how", [[], ["--tags", "cat"]], ids=["all", "one"])
def test_refused_before_anything_is_changed(tuned, asked, words, how):
    play = tuned.play(SITE, *how, "-e", json.dumps({**asked, "epyc_plan_draft": {}}), succeeds=False)
    assert play.returncode != 0
    assert play.changed_results == {}
    said = [result["msg"] for result in play.results if result["status"] == "failed"]
    assert len(said) == 1
    assert [word for word in words if word not in said[0]] == []


def test_all_refusals_come_at_once_and_before_the_first_change(bare):
    """Of a host that nobody has tuned: its SKU, its boot loader, a variable, and each of its instances."""
    guest, dummy = bare
    guest.run(
        "mv /boot/grub/grub.cfg /boot/grub/grub.cfg.away; install -d /srv/models; echo no model >/srv/models/bad.gguf"
    )
    before = guest.everything()
    instances = [
        {"name": "missing", "model": "/srv/models/none.gguf", "port": 8080},
        {"name": "damaged", "model": "/srv/models/bad.gguf", "port": 22000},
        {"name": "unknown", "modell": "/srv/models/none.gguf", "port": 8082},
    ]
    asked = {"epyc_plan_verfy": {}, "epyc_llama_instances": instances, "epyc_llama_binary": "/opt/none/llama-server"}
    words = [
        "There is no variable epyc_plan_verfy; did you mean epyc_plan_verify?",
        "There is no /boot/grub/grub.cfg, so GRUB does not boot this host",
        "Instance missing: there is no /opt/none/llama-server.",
        "Instance missing: /srv/models/none.gguf cannot be read",
        "Instance damaged: /srv/models/bad.gguf",
        "Instance unknown: An instance has no option 'modell'; did you mean model?",
    ]
    try:
        for how in ([], ["--check"]):
            play = guest.play(SITE, *how, "-e", json.dumps(asked), succeeds=False)
            assert (play.returncode, play.changed_results) == (2, {})
            (refusal,) = [result["msg"] for result in play.results if result["status"] == "failed"]
            lines = refusal.splitlines()
            assert [word for word in words if not any(line.startswith(word) for line in lines)] == [], refusal
            assert lines[-1] == "Nothing was changed."
            assert guest.everything() == before
        # The plan of the variables does not fit the other SKU, which is said instead.
        other = json.dumps({"epyc_plan_sku": "9654", "epyc_plan_draft": {"ccds": 1, "l3": "24MiB"}})
        play = guest.play(SITE, "-e", other, succeeds=False)
        (refusal,) = [result["msg"] for result in play.results if result["status"] == "failed"]
        assert "for an EPYC 9654 (epyc_plan_sku)" in refusal and "24 MiB" not in refusal
        assert guest.everything() == before
    finally:
        guest.run("mv /boot/grub/grub.cfg.away /boot/grub/grub.cfg; rm -r /srv/models")


def test_layers_are_left_out_and_a_strange_sku_is_let_in(tuned):
    """With a plan that would change the L3 caches, if their layer were not left out."""
    asked = {"epyc_steps": ["numa"], "epyc_plan_sku": "9654", "epyc_plan_sku_check": False, "epyc_plan_draft": {}}
    play = tuned.play(SITE, "--check", "-e", json.dumps(asked))
    # The intent that is stored with every request is new.
    assert play.changed_results.keys() == {"Set NUMA balancing and transparent huge pages"}


CHECK = ["--check", "--diff"]


@pytest.mark.parametrize(("how", "core"), [([], OLDEST_CORE), (CHECK, "")], ids=["run-oldest-core", "check"])
def test_second_time_changes_nothing(tuned, how, core):
    before = tuned.state()
    play = tuned.play(SITE, *THROUGH, *how, programs=ensure_venv(core) if core else None)
    assert play.changed_results == {}
    assert tuned.state() == before
    assert 0 < len(play.executions) <= MOST_MODULES, play.executions
    plans = [task for module, task in play.executions if module.endswith("epyc_plan")]
    assert len(plans) == 1, "the role epyc_plan runs once, though each layer depends on it"
    assert waits_for_a_reboot(tuned) in play["Say what waits for a reboot"]["msg"]


@pytest.mark.parametrize(("how", "core"), [([], ""), (CHECK, OLDEST_CORE)], ids=["run", "check-oldest-core"])
def test_second_time_is_one_look_though_a_reboot_waits(tuned, how, core):
    before = tuned.untouched()
    play = tuned.play(SITE, *how, programs=ensure_venv(core) if core else None)
    assert play.changed_results == {}
    assert tuned.touched_since(before) == set()
    assert [task for dummy, task in play.executions] == [LOOK]
    assert waits_for_a_reboot(tuned) in play[SAY]["msg"]
    assert (play[LOOK]["holds"], play[LOOK]["reboot_required"]) == (True, True)


#: What one may change by hand, in the order in which a later one is told before those above, and what is told of it.
BY_HAND = {
    "echo '# edited' >>/usr/sbin/sovereign-epyc": last_run.DIFFERENCE_REASONS["files"],
    "systemctl stop sovereign-epyc-watch.service": last_run.IDLE,
    "rmmod cpuid": last_run.UNLOADED,
    "echo L3:0=ff >/sys/fs/resctrl/draft/schemata": last_run.DRIFTED,
}


def test_a_run_repairs_what_was_changed_by_hand(tuned):
    good = tuned.state()
    inputs = tuned.play(SITE, "--check")[LOOK]["inputs"]
    for command, reason in BY_HAND.items():
        tuned.run(command)
        assert tuned.module("epyc_last_run", inputs=inputs, packages=["kmod"])["reason"] == reason
    play = tuned.play(SITE)
    assert play[LOOK]["holds"] is False
    assert play.changed_results.keys() == {
        "Refuse what the collection is not made for, and load the kernel modules",
        "Install the host tool and its services",
        CAT,
    }
    assert tuned.state() == good
    again = tuned.play(SITE)
    assert ([task for dummy, task in again.executions], again[LOOK]["inputs"]) == ([LOOK], inputs)


def test_drift_is_named_and_only_it_is_repaired(tuned):
    good = tuned.state()
    tuned.run("cd /sys/fs/resctrl && echo L3:0=ff >draft/schemata && echo 1-2,5-7 >verify/cpus_list")
    bad = tuned.state()
    # Something that we did not ask for and do not own: a repair that rewrites a group instead of a mask would reset it.
    tuned.run("echo MB:3=64 >/sys/fs/resctrl/draft/schemata")
    try:
        check = tuned.play(SITE, "--tags", "cat", "--check", "--diff")
        assert check.changed_results.keys() == {CAT}
        assert check[CAT]["diff"]["changes"] == {
            "before": {"resctrl:draft/L3/0": "ff", "resctrl:verify/cpus": "1-2,5-7"},
            "after": {"resctrl:draft/L3/0": "f", "resctrl:verify/cpus": "1-3,5-7"},
        }
        for line in check[CAT]["diff"]["prepared"].splitlines():
            assert line in check.output, "a person who reads the screen sees it too"
        tuned.run("echo MB:3=2048 >/sys/fs/resctrl/draft/schemata")
        assert tuned.state() == bad, "a check repairs nothing"
        tuned.run("echo MB:3=64 >/sys/fs/resctrl/draft/schemata")
        repair = tuned.play(SITE, "--tags", "cat")
        assert repair[CAT]["diff"] == check[CAT]["diff"]
        assert tuned.masks("draft", "MB")[3] == "64"
    finally:
        tuned.run("echo MB:3=2048 >/sys/fs/resctrl/draft/schemata")
    assert tuned.state() == good


def test_what_is_asked_for_no_more_is_put_back(tuned):
    asked = json.dumps({f"epyc_cpufreq_{role}": {} for role in ("draft", "verify", "housekeeping")})
    how = ["--tags", "cpufreq", "-e", asked]
    check = tuned.play(SITE, *how, "--check")["Set governors, limits and boost"]
    done = tuned.play(SITE, *how)["Set governors, limits and boost"]
    assert check["diff"] == done["diff"]
    assert done["diff"]["changes"]["after"]["desired:cpufreq/cpufreq"] is None
    assert "performance" not in tuned.run("cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor")
    assert "cpufreq" not in tuned.run("cat /var/lib/sovereign-epyc/desired.json")


def test_what_was_there_before_the_first_of_the_killed_runs_comes_back(tuned):
    tuned.play("playbooks/restore.yml")
    # Drivers that a run has loaded go at a boot; update-grub loads dm_mod.
    drivers = {"driver dm_mod", "driver cpuid", "driver msr"}
    assert tuned.changed_since(tuned.first).keys() - drivers == set()


def test_epyc9754(boot_guest):
    guest = boot_guest("epyc9754", "site-9754")
    guest.play(SITE)
    look = guest.play(SITE)
    assert [task for dummy, task in look.executions] == [LOOK]
    plan = guest.play("playbooks/plan.yml")["Read the topology and plan"]
    assert look[LOOK]["ansible_facts"] == plan["ansible_facts"]
    # Draft has a CCD, on a 9754 two L3 domains, the first that is whole: housekeeping has the first core of each node.
    keeps, has = dict.fromkeys(range(16), "f"), dict.fromkeys(range(16), "fff0")
    assert guest.masks(".") == keeps
    assert guest.masks("draft") == {**keeps, 2: "fff0", 3: "fff0"}
    assert guest.masks("verify") == {**has, 2: "f", 3: "f"}
    assert guest.read("draft", "cpus_list") == "16-31"
    assert guest.read("verify", "cpus_list") == "1-15,33-63,65-95,97-127"
    rows = [row.split() for row in plan["text"].partition("who\n")[2].splitlines()]
    assert [int(row[2]) for row in rows] == list(range(16))
    assert rows[2] == ["0", "1", "2", "16-23", "dddddddddddd....", "draft", "16-23"]
    assert rows[15] == ["3", "7", "15", "120-127", "vvvvvvvvvvvv....", "verify", "120-127"]
