# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A BMC in memory: a Redfish service as a function, with the attributes that a test gives it.

It is called as Ansible's HTTP is. What the lab's BMC has over it is TLS, vendors and their faults; this one is for the
Pythons that have no lab.
"""

from __future__ import annotations

import copy
import io
import json
import urllib.error
from email.message import Message
from urllib.parse import urlsplit

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess, RedfishClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ROOT = "/redfish/v1"
PASSWORD = "correct-horse-7-battery"


def enumeration(name: str, *values: str, **more: Any) -> dict[str, Any]:
    """An attribute of a registry; a value may have a title, as in ``0=Disabled``."""
    pairs = [value.partition("=") for value in values]
    told = [{"ValueName": name, "ValueDisplayName": title or name} for name, dummy, title in pairs]
    return {"AttributeName": name, "Type": "Enumeration", "Value": told, **more}


def locked(name: str, by: str, value: str, flag: str = "ReadOnly", to: Any = True, condition: str = "NEQ") -> Any:
    """A dependency: the flag of an attribute is set while another one does not have a value."""
    term = {"MapFromAttribute": by, "MapFromProperty": "CurrentValue"}
    return {
        "Type": "Map",
        "DependencyFor": name,
        "Dependency": {
            "MapFrom": [{**term, "MapFromCondition": condition, "MapFromValue": value}],
            "MapToAttribute": name,
            "MapToProperty": flag,
            "MapToValue": to,
        },
    }


class Response:
    """What Ansible's HTTP returns."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = Message()
        for name, value in headers.items():
            self.headers[name] = value
        self.read = io.BytesIO(body).read

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *dummy: object) -> None:
        pass


class Bmc:
    """One machine; ``answers`` are given before anything else, by method and path, in turn."""

    def __init__(
        self,
        attributes: list[dict[str, Any]],
        active: Mapping[str, Any],
        dependencies: list[Any] | None = None,
        manufacturer: str = "HPE",
    ) -> None:
        self.registry = {"Attributes": copy.deepcopy(attributes), "Dependencies": dependencies or []}
        self.active = dict(active)
        self.pending: dict[str, Any] = {}
        self.jobs: dict[str, str] = {}
        self.system: dict[str, Any] = {"Manufacturer": manufacturer, "Model": "X1", "UUID": "u-1", "PowerState": "On"}
        self.messages: list[Any] = []
        self.settings: str | None = "Settings"
        self.apply_times = ["OnReset"]
        self.sessions: set[str] = set()
        self.answers: dict[tuple[str, str], list[tuple[int, Any, dict[str, str]]]] = {}
        self.log: list[tuple[str, str]] = []
        self.sent: list[Any] = []
        self.slept: list[float] = []
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = lambda values: values

    def client(self, **more: Any) -> RedfishClient:
        """A client of it, which does not sleep for real."""
        return RedfishClient(BmcAccess("bmc.example.com", "ops", PASSWORD, **more), self, self.slept.append)

    def boot(self) -> None:
        """Apply what is pending."""
        self.active.update(self.pending)
        self.pending, self.jobs = {}, {}

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was sent to change it, without the session."""
        return [(method, path) for method, path in self.log if method != "GET" and "Sessions" not in path]

    def __call__(self, method: str, url: str, data: bytes | None = None, headers: Any = None, **more: Any) -> Response:
        assert more["use_proxy"] is False
        assert more["follow_redirects"] == "none"
        path = urlsplit(url).path.rstrip("/")
        self.log.append((method, path))
        body = json.loads(data) if data else None
        told = self.answers.get((method, path))
        status, answer, extra = told.pop(0) if told else self.answer(method, path, body, headers)
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if status >= 300:
            response = Response(status, raw, extra)
            raise urllib.error.HTTPError(url, status, "", response.headers, io.BytesIO(raw))
        return Response(status, raw, extra)

    def answer(self, method: str, path: str, body: Any, headers: Any) -> tuple[int, Any, dict[str, str]]:
        """What the standard says."""
        if path == f"{ROOT}/SessionService/Sessions" and method == "POST":
            if body != {"UserName": "ops", "Password": PASSWORD}:
                return 401, {}, {}
            self.sessions.add("1")
            return 201, {}, {"X-Auth-Token": "t", "Location": f"{path}/1"}
        if headers.get("X-Auth-Token") != "t":
            return 401, {}, {}
        if method == "DELETE":
            return self.delete(path)
        if method in ("PATCH", "POST"):
            return self.change(method, path, body, headers)
        found = self.tree().get(path)
        return (404, {}, {}) if found is None else (200, found, {"ETag": '"1"'})

    def delete(self, path: str) -> tuple[int, Any, dict[str, str]]:
        """End a session, or delete a job with what it holds."""
        if path.startswith(f"{ROOT}/SessionService"):
            self.sessions.discard("1")
        else:
            del self.jobs[path.rpartition("/")[2]]
            self.pending = {}
        return 204, {}, {}

    def change(self, method: str, path: str, body: Any, headers: Any) -> tuple[int, Any, dict[str, str]]:
        """Take pending values."""
        self.sent.append((body, headers.get("If-Match")))
        if path.endswith("/Jobs"):
            self.jobs["JID_2"] = "Scheduled"
            return 200, {}, {"Location": f"{path}/JID_2"}
        if path.endswith("ClearPending"):
            self.pending = {}
            return 200, {}, {}
        if path.endswith("ComputerSystem.Reset"):
            self.system["PowerState"] = "Off" if body["ResetType"] == "ForceOff" else "On"
            return 204, {}, {}
        values = self.spoil(dict(body["Attributes"]))
        self.pending.update(values)
        self.pending = {name: value for name, value in self.pending.items() if self.active.get(name) != value}
        if self.system["Manufacturer"].startswith("Dell") and "@Redfish.SettingsApplyTime" in body:
            self.jobs["JID_1"] = "Scheduled"
            return 202, {}, {"Location": f"{ROOT}/TaskService/Tasks/JID_1"}
        return 200, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.0.Success", "Message": "Done."}]}, {}

    def tree(self) -> dict[str, Any]:
        """All resources."""
        system, manager = f"{ROOT}/Systems/1", f"{ROOT}/Managers/1"
        bios: dict[str, Any] = {"Attributes": self.active, "AttributeRegistry": "BiosRegistry.1"}
        told: dict[str, Any] = {"Messages": self.messages, "SupportedApplyTimes": self.apply_times}
        if self.settings:
            told["SettingsObject"] = {"@odata.id": f"{system}/Bios/{self.settings}"}
        bios["@Redfish.Settings"] = told
        tree: dict[str, Any] = {
            f"{ROOT}/Systems": {"Members": [{"@odata.id": system}]},
            system: {"@odata.id": system, "Id": "1", "Bios": {"@odata.id": f"{system}/Bios"}, **self.system},
            f"{system}/Bios": bios,
            f"{ROOT}/Registries": {"Members": [{"@odata.id": f"{ROOT}/Registries/BiosRegistry.1"}]},
            f"{ROOT}/Registries/BiosRegistry.1": {"Location": [{"Language": "en", "Uri": f"{ROOT}/files/bios"}]},
            f"{ROOT}/files/bios": {"Id": "BiosRegistry.1", "RegistryEntries": self.registry},
            f"{ROOT}/Managers": {"Members": [{"@odata.id": manager}]},
            manager: {},
            f"{manager}/Jobs": {"Members": [{"@odata.id": f"{manager}/Jobs/{job}"} for job in self.jobs]},
        }
        if self.settings:
            tree[f"{system}/Bios/{self.settings}"] = {"Attributes": self.pending}
        for job, state in self.jobs.items():
            tree[f"{manager}/Jobs/{job}"] = {"Id": job, "JobState": state, "JobType": "BIOSConfiguration"}
        return tree
