# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the module of BIOS settings against a BMC in memory, and the BMCs that they are made against."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.converge import BiosRequest, apply_bios_request
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.originals import Originals
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc, enumeration, locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NPS = enumeration("NumaMemoryDomainsPerSocket", "OneMemoryDomainPerSocket", "FourMemoryDomainsPerSocket")
SMT = enumeration("ProcSMT", "Enabled", "Disabled")
IDLE = enumeration("MinProcIdlePower", "C6", "NoCStates")
PROFILE = enumeration("WorkloadProfile", "GeneralPowerEfficientCompute", "Custom")
FABRIC = enumeration("InfinityFabricPstate", "Auto", "P0")
ACTIVE = {
    "NumaMemoryDomainsPerSocket": "OneMemoryDomainPerSocket",
    "ProcSMT": "Enabled",
    "MinProcIdlePower": "C6",
    "WorkloadProfile": "GeneralPowerEfficientCompute",
    "InfinityFabricPstate": "Auto",
}
SETTINGS = f"{ROOT}/Systems/1/Bios/Settings"
BIOS = f"{ROOT}/Systems/1/Bios"


def bmc_with_profile() -> Bmc:
    """Return a BMC whose profile locks an attribute."""
    rule = locked("MinProcIdlePower", "WorkloadProfile", "Custom")
    return Bmc([NPS, SMT, IDLE, PROFILE, FABRIC], ACTIVE, [rule])


def bmc_of_dell() -> Bmc:
    """Return a BMC that applies what is pending by a job."""
    attributes = [enumeration("NumaNodesPerSocket", "1", "4"), enumeration("LogicalProc", "Enabled", "Disabled")]
    return Bmc(
        attributes, {"NumaNodesPerSocket": "1", "LogicalProc": "Enabled", "Other": "x"}, manufacturer="Dell Inc."
    )


class Runs:
    """Runs of the module against one BMC, with its file of originals."""

    def __init__(self, bmc: Bmc, folder: Path) -> None:
        self.bmc = bmc
        self.file = folder / "originals.json"

    def __call__(self, check: bool = False, attributes: Any = None, undo: bool = False, **asked: Any) -> dict[str, Any]:
        rules = {key: asked.pop(key) for key in ("unlock", "foreign") if key in asked}
        self.bmc.log.clear()
        with self.bmc.client() as client:
            return apply_bios_request(
                client, BiosRequest(asked, attributes or {}, undo, **rules), Originals(str(self.file), check), check
            )

    def verdicts(self, **asked: Any) -> dict[str, str]:
        return {row["option"]: row["verdict"] for row in self(check=True, **asked)["settings"]}
