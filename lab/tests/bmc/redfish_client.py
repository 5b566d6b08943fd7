# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of BMCs, for tests that ask about the BMC itself."""

from __future__ import annotations

import base64
import gzip
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vepyc.bmc import PERSONALITIES
from vepyc.bmc.personality import load_personality

#: What is asked for in most tests: another number of nodes, which no vendor's profile locks.
NPS4 = {name: load_personality(name).machine_state_to_settings({"nps": 4}) for name in PERSONALITIES}
ON_RESET = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        """The message that an error names."""
        return str(self.body["error"]["code"])


class Client:
    """As little as speaks Redfish: the standard library, with the certificate checked."""

    def __init__(self, reach: Mapping[str, str]) -> None:
        self.url = reach["url"]
        self.context = ssl.create_default_context(cafile=reach["ca"])
        secret = base64.b64encode(f"{reach['user']}:{reach['password']}".encode()).decode()
        self.auth = {"Authorization": f"Basic {secret}"}
        data = load_personality(reach["vendor"])
        self.system = f"/redfish/v1/Systems/{data['system']}"
        self.bios = f"{self.system}/Bios"
        self.pending = f"{self.bios}/{data['settings']}".rstrip("/")
        self.takes_tags = data["if_match"] != "refused"
        self.manager = f"/redfish/v1/Managers/{data['manager']}"

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        sent = {**self.auth, "Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=10) as answer:
                return self._reply(answer.status, answer)
        except urllib.error.HTTPError as error:
            with error:
                return self._reply(error.code, error)

    def _reply(self, status: int, answer: Any) -> Reply:
        headers, data = dict(answer.headers), answer.read()
        if headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        return Reply(status, headers, json.loads(data) if data else None)

    def get(self, path: str) -> Any:
        reply = self("GET", path)
        assert reply.status == 200, reply
        return reply.body

    def patch(self, attributes: dict[str, Any], match: str = "*") -> Reply:
        headers = {"If_Match": match} if self.takes_tags else {}
        return self("PATCH", self.pending, {"Attributes": attributes, **ON_RESET}, **headers)

    def reset(self, kind: str = "ForceRestart") -> Reply:
        return self("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})
