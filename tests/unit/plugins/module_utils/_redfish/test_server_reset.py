# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import (
    COLD,
    FORCE,
    GRACEFUL,
    reset_server,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc

SYSTEM = f"{ROOT}/Systems/1"
TARGET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
ALL = ["On", "ForceOff", "GracefulRestart", "ForceRestart", "PowerCycle"]


def server(*allowed: str, power: str = "On", **action: Any) -> Bmc:
    bmc = Bmc([], {})
    told = {"target": TARGET, **({"ResetType@Redfish.AllowableValues": list(allowed)} if allowed else {}), **action}
    bmc.system.update(PowerState=power, Actions={"#ComputerSystem.Reset": told})
    return bmc


def sent(bmc: Bmc, how: str, **more: Any) -> list[str]:
    """What the BMC was told, and what the result says of it."""
    with bmc.client() as client:
        told = reset_server(client, None, how, **{"sleep": bmc.slept.append, **more})
    types = [body["ResetType"] for body, dummy in bmc.sent]
    assert types == ([] if more.get("check") else told["sent"])
    return list(told["sent"])


@pytest.mark.parametrize(
    ("how", "allowed", "expected"),
    [
        (GRACEFUL, ALL, ["GracefulRestart"]),
        (FORCE, ALL, ["ForceRestart"]),
        (COLD, ALL, ["PowerCycle"]),
        (COLD, ["ForceOff", "On"], ["ForceOff", "On"]),
    ],
)
def test_a_type_that_the_bmc_takes(how: str, allowed: list[str], expected: list[str]) -> None:
    assert sent(server(*allowed), how, check=True) == expected
    assert sent(server(*allowed), how) == expected


@pytest.mark.parametrize(
    ("how", "allowed", "words"),
    [
        (GRACEFUL, ["On", "ForceRestart"], "needs GracefulRestart. Ask for force, or let the operating system reboot."),
        (FORCE, ["On", "GracefulRestart"], "needs ForceRestart. Ask for graceful, or let"),
        (COLD, ["On", "Nmi"], "it takes On, Nmi, and that needs On, and PowerCycle or ForceOff. Let the operating"),
        # Nothing could switch it on again once its system has shut down.
        (COLD, ["PowerCycle", "ForceRestart"], "needs On, and PowerCycle or ForceOff. Ask for force, or let"),
    ],
)
def test_a_type_that_the_bmc_does_not_take(how: str, allowed: list[str], words: str) -> None:
    bmc = server(*allowed)
    with pytest.raises(BadRequest) as failed:
        sent(bmc, how)
    assert words in str(failed.value)
    assert str(failed.value).endswith("Nothing was changed.")
    assert (bmc.writes, bmc.sessions) == ([], set())


def test_types_may_be_told_in_another_place() -> None:
    bmc = server(**{"@Redfish.ActionInfo": f"{SYSTEM}/ResetActionInfo"})
    parameter = {"Name": "ResetType", "AllowableValues": ["ForceRestart"]}
    info = {"Parameters": [{"Name": "Other"}, parameter]}
    bmc.answers["GET", f"{SYSTEM}/ResetActionInfo"] = [(200, info, {})]
    assert sent(bmc, FORCE) == ["ForceRestart"]
    with pytest.raises(BmcError, match="does not say that it can reset its server"):
        sent(server(), FORCE)
    bmc = server(*ALL)
    del bmc.system["Actions"]
    with pytest.raises(BmcError, match="does not say that it can reset its server"):
        sent(bmc, FORCE)


@pytest.mark.parametrize("how", [GRACEFUL, COLD])
def test_a_server_that_is_off_is_switched_on(how: str) -> None:
    assert sent(server(*ALL, power="Off"), how) == ["On"]


def test_a_system_that_shuts_down_is_waited_for() -> None:
    bmc = server(*ALL)
    assert sent(bmc, COLD, shutdown_timeout=300, sleep=lambda dummy: bmc.system.update(PowerState="Off")) == ["On"]


def test_the_power_is_cut_when_the_system_does_not_shut_down() -> None:
    bmc = server(*ALL)
    assert sent(bmc, COLD, shutdown_timeout=12) == ["PowerCycle"]
    assert bmc.slept == [5, 5, 2]


def test_a_server_that_stays_on_or_a_bmc_that_refuses() -> None:
    bmc = server("ForceOff", "On")
    bmc.answers["POST", TARGET] = [(204, {}, {})]
    with pytest.raises(BmcError, match="was sent ForceOff, and its server is still on after 60 seconds"):
        sent(bmc, COLD)
    bmc = server(*ALL)
    bmc.answers["POST", TARGET] = [(403, {"error": {"code": "X.1.0.Y", "message": "Not you."}}, {})]
    with pytest.raises(BmcError, match=r"refuses the reset ForceRestart: status 403 .'Not you.'.*"):
        sent(bmc, FORCE)


def test_a_reset_that_its_task_does_not_do() -> None:
    bmc = server(*ALL)
    bmc.answers["POST", TARGET] = [(202, {}, {"Location": f"{ROOT}/TaskService/TaskMonitors/3"})]
    task = {"TaskState": "Exception", "Messages": [{"Message": "The power supply is off."}]}
    bmc.answers["GET", f"{ROOT}/TaskService/TaskMonitors/3"] = [(202, {}, {"Retry-After": "4"}), (200, task, {})]
    with pytest.raises(BmcError, match=r"did not do the reset ForceRestart.*'The power supply is off\.'"):
        sent(bmc, FORCE)
    assert bmc.slept == [4]
