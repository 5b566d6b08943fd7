# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the module of BIOS settings against one of the lab's BMCs, over TLS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bmc import open_url
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess, RedfishClient
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.converge import BiosRequest, apply_bios_request
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.originals import Originals
from vepyc.bmc import Bmc

WISH = {"nps": "4", "smt": "off", "boost": "on", "determinism": "power", "df_c_states": "off", "c_states": "off"}


class Runs:
    """A BMC, and runs of the module against it."""

    def __init__(self, bmc: Bmc, folder: Path) -> None:
        self.bmc = bmc
        self.file = folder / "originals.json"
        self.slept: list[float] = []
        self.rules: dict[str, Any] = {}

    def client(self, **more: Any) -> RedfishClient:
        access = {"ca_path": str(self.bmc.ca), "timeout": 10, **self.rules, **more}
        password = access.pop("password", self.bmc.password)
        return RedfishClient(BmcAccess(self.bmc.url, self.bmc.user, password, **access), open_url, self.slept.append)

    def __call__(self, check: bool = False, wish: dict[str, str] | None = None, **rules: Any) -> dict[str, Any]:
        with self.client() as client:
            originals = Originals(str(self.file), check)
            return apply_bios_request(
                client, BiosRequest(WISH if wish is None else wish, {}, **rules), originals, check
            )

    def refused(self, words: str, **more: Any) -> str:
        """Run, and return the sentence of the failure, which leaves neither a session nor anything pending of ours."""
        before = self.bmc.pending_settings
        with pytest.raises(TuningError, match=words) as failed:
            self(**more)
        assert self.bmc.pending_settings == before
        assert self.bmc.open_sessions == []
        return str(failed.value)

    def until_done(self, boots: int = 2, **more: Any) -> int:
        """Run and boot until nothing is left to do; returns the number of boots, at most so many."""
        for number in range(boots + 1):
            told = self(**more)
            if not told["reboot_required"]:
                assert {row["verdict"] for row in told["settings"]} <= {"claimed by firmware", "not on this machine"}
                assert self(check=True, **more)["changed"] is False
                return number
            self.bmc.boot_machine()
        pytest.fail(f"still not done after {boots} boots: {told['text']}")

    @property
    def writes(self) -> list[str]:
        return [one.method for one in self.bmc.request_log if one.method != "GET" and "/Sessions" not in one.path]


Start = Callable[..., Runs]
