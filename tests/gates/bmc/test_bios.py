# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS of five vendors through the lab's BMC, over TLS: from a check to the undo, and each fault that was reported.

After each fault: one sentence that says what helps, nothing half done, and a next run that gets there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import reset_server
from vepyc.bmc import PERSONALITIES, Faults

from .runs import WISH, Start


@pytest.mark.parametrize("vendor", PERSONALITIES)
def test_from_a_check_to_the_undo(start: Start, vendor: str) -> None:
    run = start(vendor)
    first, kernel = run.bmc.active_settings, run.bmc.machine_state
    assert run(check=True)["changed"] is True
    assert (run.writes, run.bmc.open_sessions, run.bmc.pending_settings, run.file.exists()) == ([], [], {}, False)
    assert run()["changed"] is True
    sent = len(run.writes)
    again = run()
    assert (again["changed"], again["reboot_required"]) == (False, True)
    assert len(run.writes) == sent + (vendor == "supermicro")  # which does not show what waits
    run.bmc.boot_machine()
    assert run.until_done(boots=0) == 0
    assert {name: run.bmc.machine_state[name] for name in ("nps", "smt", "boost")} == {
        "nps": 4,
        "smt": False,
        "boost": True,
    }
    run.until_done(undo=True)
    assert (run.bmc.active_settings, run.bmc.machine_state, run.file.exists()) == (first, kernel, False)


def test_a_certificate_is_verified_or_known(start: Start, tmp_path: Path) -> None:
    run = start("hpe")
    with pytest.raises(TuningError, match=r"cannot be verified.*fingerprint"), run.client(ca_path=None):
        pass
    with pytest.raises(TuningError, match=r"has the fingerprint .* which differs"):
        run.client(ca_path=None, fingerprint="ab" * 32).__enter__()
    assert run.bmc.request_log == []
    with run.client(ca_path=None, fingerprint=run.bmc.fingerprint) as client:
        assert read_result_of_bios_info_module(client, None, ["catalogue"])["claims"]["smt"]["active"] == "on"
    with run.client(ca_path=None, validate_certs=False):
        pass


def test_a_wrong_password_is_sent_once(start: Start) -> None:
    run = start("dell")
    with pytest.raises(TuningError, match="refuses the user or the password"), run.client(password="wrong"):
        pass
    assert (run.bmc.failed_logins, len(run.bmc.request_log)) == (1, 1)


@pytest.mark.parametrize("vendor", ["lenovo", "supermicro"])
def test_accepted_and_dropped_without_a_word(start: Start, vendor: str) -> None:
    run = start(vendor, Faults(accept_and_drop=("Memory_NUMANodesperSocket", "NUMANodesPerSocket_703E")))
    run()
    run.bmc.boot_machine()
    row = run(check=True)["settings"][0]
    assert row["option"] == "nps"
    assert "sent by an earlier run" in row["sentence"] or "does not show what waits" in row["sentence"]
    run.bmc.faults.accept_and_drop = ()
    assert run.until_done() == 1


def test_success_with_a_refused_attribute(start: Start) -> None:
    run = start("hpe", Faults(refused_at_boot=("ProcSMT",)))
    run()
    run.bmc.boot_machine()
    row = next(row for row in run(check=True)["settings"] if row["attribute"] == "ProcSMT")
    assert row["verdict"] == "wrong"
    assert "The last boot says: 'The BIOS did not apply the attribute 'ProcSMT'.'" in row["sentence"]
    run.bmc.faults.refused_at_boot = ()
    assert run.until_done() == 1


def test_a_job_exists(start: Start) -> None:
    run = start("dell", Faults(foreign_pending={"IommuSupport": "Disabled"}, foreign_job=True))
    said = run.refused("Somebody else has settings pending")
    assert re.search(r"in the job JID_\d+: IommuSupport: Enabled -> Disabled", said)
    run.refused("takes no others until a boot", foreign="keep")
    assert run.until_done(foreign="clear") == 1
    assert run.bmc.active_settings["IommuSupport"] == "Enabled"


@pytest.mark.parametrize("vendor", ["hpe", "lenovo", "ami"])
def test_pending_values_of_somebody_else(start: Start, vendor: str) -> None:
    foreign = {"hpe": "ProcAmdIoVt", "lenovo": "DevicesandIOPorts_IOMMU", "ami": "CbsCmnGnbNbIOMMU"}[vendor]
    value = {"ami": "CbsCmnGnbNbIOMMUDisabled"}.get(vendor, "Disabled")
    run = start(vendor, Faults(foreign_pending={foreign: value}))
    before = run.bmc.active_settings[foreign]
    run.refused(foreign)
    run(foreign="keep")
    assert run.bmc.pending_settings[foreign] == value
    run(foreign="clear")
    assert foreign not in run.bmc.pending_settings
    run.until_done()
    assert run.bmc.active_settings[foreign] == before


def test_dell_shows_values_before_the_job_ran(start: Start) -> None:
    run = start("dell", Faults(early_active=True))
    run()
    told = run()
    assert {row["verdict"] for row in told["settings"]} == {"waits for a reboot", "claimed by firmware"}
    assert told["settings"][0]["verdict"] == "waits for a reboot"
    run.bmc.boot_machine()
    assert run.until_done(boots=0) == 0


@pytest.mark.parametrize("vendor", PERSONALITIES)
def test_two_boots(start: Start, vendor: str) -> None:
    run = start(vendor, Faults(two_boots=True))
    assert run.until_done() == 2


@pytest.mark.parametrize("vendor", ["dell", "hpe", "lenovo"])
def test_a_child_waits_for_the_boot_of_its_parent(start: Start, vendor: str) -> None:
    run = start(vendor, Faults(parent_must_be_active=True))
    run.until_done()


@pytest.mark.parametrize("vendor", ["ami", "hpe"])
def test_an_entity_tag_that_changes_meanwhile(start: Start, vendor: str) -> None:
    run = start(vendor, Faults(etag_races=1))
    assert run()["changed"] is True
    run.bmc.boot_machine()
    assert run.until_done(boots=0) == 0
    run.bmc.faults.etag_races = 5
    run.refused("changed twice", undo=True)
    run.bmc.faults.etag_races = 0
    run.until_done(undo=True)


def test_nothing_is_there_while_nothing_is_pending(start: Start) -> None:
    assert start("ami", Faults(pending_404=True)).until_done() == 1
    run = start("ami", Faults(post_first=True))
    run.file.unlink()
    assert run.until_done() == 1
    assert "POST" in run.writes


def test_a_licence_is_missing(start: Start) -> None:
    run = start("supermicro", Faults(no_licence=True))
    assert "SFT-OOB-LIC" in run.refused("needs a licence")
    run.bmc.faults.no_licence = False
    assert run.until_done() == 1


@pytest.mark.parametrize("vendor", ["dell", "hpe"])
def test_all_sessions_are_taken(start: Start, vendor: str) -> None:
    run = start(vendor, Faults(sessions_exhausted=True))
    run.refused("no free session")
    assert run.slept == []
    run.bmc.faults.sessions_exhausted = False
    assert run.until_done() == 1


def test_busy_after_a_reset(start: Start) -> None:
    run = start("hpe", Faults(busy_after_reset=2))
    run()
    run.bmc.host.switch_power("cycle")
    run.slept.clear()
    with pytest.raises(TuningError, match="is busy"):
        run()
    assert sum(run.slept) <= 60
    import time

    time.sleep(2)
    assert run.until_done(boots=0) == 0


def test_a_self_test_that_hangs(start: Start) -> None:
    run = start("hpe", Faults(hung_posts=1))
    run()
    run.bmc.boot_machine()
    assert run.bmc.host.is_in_post
    assert run(check=True)["machine"]["post"] == "InPost"
    run.refused("hangs: reset it once more", wish={**WISH, "iommu": "off"})
    run.bmc.boot_machine()
    assert run.until_done(boots=0) == 0


def test_a_boot_progress_that_never_ends_is_overruled_by_a_host_that_answers(start: Start) -> None:
    progress = {"BootProgress": {"LastState": "SystemHardwareInitializationComplete"}}
    run = start("lenovo", Faults(system_shows=progress))
    run.refused("is in its self-test")
    assert run(check=True)["again"] is True
    told = run(check=True, host_answers=True)
    assert told["again"] is False and "but its operating system answers" in " ".join(told["remarks"])
    assert run.until_done(host_answers=True) == 1


def test_the_bmc_says_it_and_the_machine_does_not(start: Start) -> None:
    """What the BMC says of itself is never called ok, because of this."""
    run = start("dell", Faults(os_unchanged=True))
    run()
    run.bmc.boot_machine()
    assert run()["claims"]["nps"]["active"] == "4"
    assert run.bmc.machine_state["nps"] == 1
    assert "ok" not in {row["verdict"] for row in run()["settings"]}


def test_a_board_without_a_link_a_registry_or_names(start: Start) -> None:
    assert start("lenovo", Faults(no_settings_link=True)).until_done() == 1
    run = start("ami", Faults(no_registry=True))
    run.file.unlink()
    run.refused("has no registry")
    told = start("ami", Faults(opaque_names=True))(check=True, wish={"smt": "off"})
    assert "By its title it may be" in told["settings"][0]["sentence"]


@pytest.mark.parametrize(
    ("vendor", "how", "sent"),
    [
        ("dell", "graceful", ["GracefulRestart"]),
        ("ami", "force", ["ForceRestart"]),
        ("dell", "cold", ["PowerCycle"]),
        ("hpe", "cold", ["ForceOff", "On"]),
    ],
)
def test_a_reset_by_the_bmc_applies_what_waits(start: Start, vendor: str, how: str, sent: list[str]) -> None:
    run = start(vendor, Faults(cold_only=how == "cold"))
    run()
    if how == "cold":
        run.bmc.boot_machine()
        assert run.bmc.pending_settings, "a boot of the system is not enough"
    before = run.bmc.host.boots
    with run.client() as client:
        assert reset_server(client, None, how, check=True)["sent"] == sent
    assert run.bmc.host.boots == before
    with run.client() as client:
        assert reset_server(client, None, how, sleep=run.slept.append)["sent"] == sent
    told = [(one.body or {})["ResetType"] for one in run.bmc.request_log if one.path.endswith("ComputerSystem.Reset")]
    assert (told, run.bmc.host.boots, run.bmc.open_sessions) == (sent, before + 1, [])
    assert run.until_done(boots=0) == 0


def test_a_reset_that_a_bmc_does_not_know(start: Start) -> None:
    run = start("ami")
    said = r"cannot do the reset 'graceful': it takes On, ForceOff, GracefulShutdown, ForceRestart.* force, or let"
    with pytest.raises(TuningError, match=said), run.client() as client:
        reset_server(client, None, "graceful")
    assert (run.writes, run.bmc.host.boots, run.bmc.open_sessions) == ([], 0, [])


def test_a_bmc_that_is_silent_or_dead(start: Start) -> None:
    run = start("hpe", Faults(silent=True))
    with pytest.raises(TuningError, match="did not answer within 1 seconds"), run.client(timeout=1):
        pass
    dead = start("hpe")
    dead.bmc.stop()
    with pytest.raises(TuningError, match="cannot be reached"), dead.client():
        pass
    dead.bmc.stop = lambda: None  # type: ignore[method-assign]
