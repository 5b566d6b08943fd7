# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible gets from a BMC: results, check mode, failures, and no password. The modules are real."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import urls
from ansible.module_utils.testing import patch_module_args

from ansible_collections.sovereign.epyc.plugins.module_utils import _bmc
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.plugins.modules import epyc_bmc_bios, epyc_bmc_bios_info, epyc_bmc_reset
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import PASSWORD, Bmc, enumeration

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def bmc() -> Bmc:
    attributes = [enumeration("NumaMemoryDomainsPerSocket", "Auto", "FourMemoryDomainsPerSocket")]
    return Bmc(
        [*attributes, enumeration("ProcSMT", "Enabled", "Disabled")],
        {"NumaMemoryDomainsPerSocket": "Auto", "ProcSMT": "Enabled"},
    )


@pytest.fixture
def run(bmc: Bmc, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(_bmc, "open_url", bmc)

    def run(module: Any, check: bool = False, **options: Any) -> dict[str, Any]:
        access = {"bmc": "bmc.example.com", "username": "ops", "password": PASSWORD}
        given = {**access, **options, "_ansible_check_mode": check}
        with patch_module_args(given), pytest.raises(SystemExit):
            module.main()
        said = capsys.readouterr()
        assert PASSWORD not in said.out + said.err
        result: dict[str, Any] = json.loads(said.out)
        return result

    return run


def test_settings_are_checked_sent_and_put_back(bmc: Bmc, run: Run, tmp_path: Path) -> None:
    asked = {"originals": str(tmp_path / "o.json"), "nps": 4, "smt": False, "attributes": {"ProcSMT": "Disabled"}}
    assert run(epyc_bmc_bios, check=True, **asked)["changed"] is True
    assert (bmc.writes, list(tmp_path.iterdir())) == ([], [])
    done = run(epyc_bmc_bios, **asked)
    assert (done["changed"], done["reboot_required"]) == (True, True)
    assert done["claims"]["nps"] == {
        "title": "NUMA nodes per socket",
        "wanted": "4",
        "attribute": "NumaMemoryDomainsPerSocket",
        "active": "Auto",
        "pending": "4",
    }
    assert (tmp_path / "o.json").stat().st_mode & 0o777 == 0o600
    bmc.boot()
    assert run(epyc_bmc_bios, state="original", originals=asked["originals"])["changed"] is True
    assert bmc.pending == {"NumaMemoryDomainsPerSocket": "Auto", "ProcSMT": "Enabled"}
    assert bmc.sessions == set()


def test_a_reset_is_checked_and_sent(bmc: Bmc, run: Run) -> None:
    target = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
    told = {"target": target, "ResetType@Redfish.AllowableValues": ["On", "ForceRestart"]}
    bmc.system["Actions"] = {"#ComputerSystem.Reset": told}
    assert run(epyc_bmc_reset, check=True, reset="force")["sent"] == ["ForceRestart"]
    assert bmc.writes == []
    done = run(epyc_bmc_reset, reset="force")
    assert (done["changed"], done["sent"], done["power"]) == (True, ["ForceRestart"], "on")
    assert (bmc.writes, bmc.sessions) == ([("POST", target)], set())


def test_a_failure_is_a_sentence_with_facts(run: Run, tmp_path: Path) -> None:
    failed = run(epyc_bmc_bios, originals=str(tmp_path / "o.json"), attributes={"ProcSMTT": "x"})
    assert failed["failed"] is True
    assert "Did you mean ProcSMT" in failed["msg"]
    assert run(epyc_bmc_bios_info, username="other")["msg"].startswith("The BMC bmc.example.com refuses the user")


def test_what_is_shown_and_warned_of(bmc: Bmc, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(_bmc.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    bmc.registry = {}
    told = run(epyc_bmc_bios_info, validate_certs=False)
    assert (told["changed"], told["active"]["ProcSMT"]) == (False, "Enabled")
    assert "not verified" in warnings[0]
    assert "has no registry" in warnings[1]


def test_errors_of_the_transport_become_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, method: str, url: str, **dummy: object) -> None:
        raise urls.ConnectionError("no way")

    monkeypatch.setattr(urls.Request, "open", broken)
    with pytest.raises(BmcError, match="https://b cannot be asked: no way"):
        _bmc.open_url("GET", "https://b")

    def lost(self: object, method: str, url: str, **dummy: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(urls.Request, "open", lost)
    with pytest.raises(ConnectionResetError):
        _bmc.open_url("GET", "https://b")


def test_a_probe_writes_its_recording_and_warns_of_a_session_that_stays(
    bmc: Bmc, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(_bmc.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    file = tmp_path / "recording.json"
    told = run(epyc_bmc_bios_info, check=True, probe=True, recording=str(file))
    assert (told["changed"], told["probe"]["can_be_set"], file.exists(), warnings) == (False, True, False, [])
    bmc.answers["DELETE", "/redfish/v1/SessionService/Sessions/1"] = [(500, {}, {})]
    told = run(epyc_bmc_bios_info, probe=True, recording=str(file))
    assert "recording" not in told["probe"]
    assert json.loads(file.read_text())["resources"] and file.stat().st_mode & 0o777 == 0o600
    assert "could not be ended: status 500." in warnings[0]
