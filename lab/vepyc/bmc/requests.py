# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request does: a GET of the tree, a PATCH of settings, a session, a reset."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message
from typing import Any, TypeAlias

from ..errors import VepycError
from .accounts import Accounts
from .errors import Refused, message
from .host import CYCLES, OFFS, Host
from .tree import OPEN, ROOT, SESSIONS, Tree

_METADATA = """\
<?xml version="1.0" encoding="UTF-8"?>
<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">
  <edmx:DataServices>
    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">
      <EntityContainer Name="Service" Extends="ServiceRoot.v1_16_0.ServiceContainer"/>
    </Schema>
  </edmx:DataServices>
</edmx:Edmx>
"""
Headers: TypeAlias = "Message[str, str]"


@dataclass
class Answer:
    """Status, document and headers of a reply."""

    status: int
    document: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""


class Requests:
    """Answers requests; raises `Refused` for the others."""

    def __init__(self, host: Host, accounts: Accounts) -> None:
        self.host = host
        self.accounts = accounts
        self.tree = Tree(host, accounts)

    def answer(self, method: str, path: str, headers: Headers, body: Any) -> tuple[Answer, str]:
        """The reply, and how the client has proved who it is. A reset happens outside the lock, after all checks."""
        path, auth = path.rstrip("/"), ""
        if method == "GET" and (elsewhere := self.host.faults.redirect_to):
            return Answer(302, headers={"Location": elsewhere + path}), auth
        try:
            with self.host.lock:
                auth = self._who(method, path, headers)
                if headers.get("OData-Version", "4.0") != "4.0":
                    raise Refused(412, "PreconditionFailed")
                if wait := self.host.busy:
                    after = str(int(wait) + 1)
                    raise Refused(503, "ServiceTemporarilyUnavailable", after, headers={"Retry-After": after})
                switch = self._reset(method, path, body)
                if switch is None:
                    return self._one(method, path, headers, body), auth
            if switch:
                self._switch(switch, cold=body.get("ResetType") == "PowerCycle")
        except Refused as error:
            error.auth = auth
            raise
        return Answer(204), auth

    def _switch(self, what: str, cold: bool) -> None:
        try:
            self.host.switch(what, cold)
        except VepycError as error:
            raise Refused(500, "GeneralError") from error

    def _who(self, method: str, path: str, headers: Headers) -> str:
        if (method in ("GET", "HEAD") and path in OPEN) or (
            method == "POST" and path in (SESSIONS, f"{SESSIONS}/Members")
        ):
            return ""
        return self.accounts.who(headers)

    def _one(self, method: str, path: str, headers: Headers, body: Any) -> Answer:
        if method in ("GET", "HEAD"):
            return self._get(path)
        if method == "PATCH" and path == self.tree.pending:
            return self._patch(headers, body)
        if method == "POST":
            return self._post(path, body)
        if method == "DELETE":
            return self._delete(path)
        raise self._no_such_method(path)

    def _no_such_method(self, path: str) -> Refused:
        if self.tree.get(path) is None and path != self.tree.pending:
            return Refused(404, "ResourceMissingAtURI", path)
        return Refused(405, "OperationNotAllowed", headers={"Allow": self._allowed(path)})

    def _allowed(self, path: str) -> str:
        """The methods that a resource knows."""
        tree, folder = self.tree, path.rpartition("/")[0]
        more = [
            *(["PATCH"] if path == tree.pending else []),
            *(["POST"] if path == SESSIONS or (path == tree.jobs and tree.data["jobs"]) else []),
            *(["DELETE"] if folder in (SESSIONS, tree.jobs) else []),
        ]
        return ", ".join(["GET", "HEAD", *more])

    def _get(self, path: str) -> Answer:
        if path == f"{ROOT}/$metadata":
            return Answer(200, text=_METADATA, headers={"Allow": "GET, HEAD"})
        document = self.tree.get(path)
        if document is None:
            raise Refused(404, "ResourceMissingAtURI", path)
        etag = {"ETag": document["@odata.etag"]} if "@odata.etag" in document else {}
        return Answer(200, document, {**etag, "Allow": self._allowed(path)})

    def _patch(self, headers: Headers, body: Any) -> Answer:
        host, bios, data = self.host, self.host.bios, self.tree.data
        self._match(headers.get("If-Match"))
        if host.in_post and data.get("oem_post"):
            raise Refused(400, "iLO.2.24.UnableToModifyDuringSystemPOST")
        unknown = [name for name in body if name != "Attributes" and not name.startswith("@")]
        if unknown:
            raise Refused(400, "PropertyUnknown", unknown[0])
        if not isinstance(body.get("Attributes"), dict):
            raise Refused(400, "PropertyMissing", "Attributes")
        job = bios.patch(body["Attributes"], (body.get("@Redfish.SettingsApplyTime") or {}).get("ApplyTime"))
        if job:
            return Answer(202, None, {"Location": f"{ROOT}/TaskService/Tasks/{job.id}"})
        document = {"@Message.ExtendedInfo": [message("Success")]}
        return Answer(data["patch_status"], None if data["patch_status"] == 204 else document)

    def _match(self, given: str | None) -> None:
        """Hold If-Match against the ETag of the object that is to be changed."""
        if not given:
            if self.tree.data["if_match"] == "required":
                raise Refused(428, "PreconditionRequired")
            return
        if self.host.faults.etag_races > 0:
            self.host.faults.etag_races -= 1
            self.host.bios.somebody_writes()
            if given != "*":
                raise Refused(412, "PreconditionFailed")
        document = self.tree.get(self.tree.pending)
        if given != "*" and (document is None or given.removeprefix("W/") != document["@odata.etag"]):
            raise Refused(412, "PreconditionFailed")

    def _post(self, path: str, body: Any) -> Answer:
        bios, tree = self.host.bios, self.tree
        if path in (SESSIONS, f"{SESSIONS}/Members"):
            for name in ("UserName", "Password"):
                if not isinstance(body.get(name), str):
                    raise Refused(400, "PropertyMissing", name)
            session = self.accounts.open(body["UserName"], body["Password"])
            where = f"{SESSIONS}/{session.id}"
            return Answer(201, tree.get(where), {"Location": where, "X-Auth-Token": session.token})
        if path == f"{tree.bios}/Actions/Bios.ResetBios":
            bios.defaults_pending = True
            return Answer(204)
        if path == tree.pending and not bios.made:
            bios.made = True
            return Answer(201, None, {"Location": path})
        if tree.data["jobs"] and path == f"{tree.pending}/Actions/Oem/DellManager.ClearPending":
            bios.clear()
            return Answer(200, {"@Message.ExtendedInfo": [message("Success")]})
        if tree.data["jobs"] and path == tree.jobs:
            if body.get("TargetSettingsURI") != tree.pending:
                raise Refused(400, "PropertyMissing", "TargetSettingsURI")
            job = bios.make_job()
            return Answer(200, None, {"Location": f"{tree.jobs}/{job.id}"})
        raise self._no_such_method(path)

    def _delete(self, path: str) -> Answer:
        folder, _, name = path.rpartition("/")
        if folder == SESSIONS and name in self.accounts.sessions:
            del self.accounts.sessions[name]
            return Answer(204)
        if folder == self.tree.jobs and name in self.host.bios.jobs:
            self.host.bios.delete_job(name)
            return Answer(200, {"@Message.ExtendedInfo": [message("Success")]})
        raise self._no_such_method(path)

    def _reset(self, method: str, path: str, body: Any) -> str | None:
        """What a reset does to the machine: "cycle", "on", "off", or nothing. None for any other request."""
        if method != "POST" or path != f"{self.tree.system}/Actions/ComputerSystem.Reset":
            return None
        kind = body.get("ResetType")
        if kind is None:
            raise Refused(400, "ActionParameterMissing", "ComputerSystem.Reset", "ResetType")
        if kind not in self.tree.data["reset_types"]:
            raise Refused(400, "PropertyValueNotInList", str(kind), "ResetType")
        if kind == "PushPowerButton":
            return "off" if self.host.on else "on"
        if kind in CYCLES:
            return "cycle" if self.host.on else "on"
        if kind in OFFS:
            return "off" if self.host.on else ""
        return "" if self.host.on else "on"
