# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers requests: a GET of a resource, a PATCH of settings, sessions, jobs, and a reset."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message
from typing import Any, TypeAlias

from ..errors import VepycError
from .accounts import Accounts
from .errors import RefusedRequest, build_message
from .host import RESTARTING_RESETS, SWITCHING_OFF_RESETS, Host
from .recorded import Recording
from .tasks import MONITORS, TASKS, Tasks
from .tree import PUBLIC_PATHS, ROOT, SESSIONS, Tree

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
    """Answers requests, and raises `RefusedRequest` for those that fail."""

    def __init__(self, host: Host, accounts: Accounts, recording: Recording | None = None) -> None:
        self.recording = recording
        self.host = host
        self.accounts = accounts
        self.tree = Tree(host, accounts)
        self.tasks = Tasks(host.faults)

    def answer_request(
        self, method: str, path: str, headers: Headers, body: Any, query: str = ""
    ) -> tuple[Answer, str]:
        """Return the reply, and how the client was authenticated. A reset happens outside of the lock."""
        if self.host.faults.login_wants_slash and (method, path) == ("POST", SESSIONS):
            return Answer(301, headers={"Location": f"{SESSIONS}/"}), ""
        path, auth = path.rstrip("/"), ""
        if method == "GET" and (elsewhere := self.host.faults.redirect_to):
            return Answer(302, headers={"Location": elsewhere + path}), auth
        try:
            with self.host.lock:
                auth = self._authenticate(method, path, headers)
                if headers.get("OData-Version", "4.0") != "4.0":
                    raise RefusedRequest(412, "PreconditionFailed")
                if wait := self.host.busy_seconds:
                    after = str(int(wait) + 1)
                    raise RefusedRequest(503, "ServiceTemporarilyUnavailable", after, headers={"Retry-After": after})
                if self.recording and SESSIONS not in path:
                    return self._replay(self.recording, method, path, query), auth
                switch = self._power_action_of_reset(method, path, body)
                if switch is None:
                    answer = self._answer_method(method, path, headers, body)
                    return self._change_on_purpose(answer, method, path, query), auth
            if switch:
                self._switch_power(switch, cold=body.get("ResetType") == "PowerCycle")
        except RefusedRequest as error:
            error.auth = auth
            raise
        return Answer(204), auth

    def _replay(self, recording: Recording, method: str, path: str, query: str) -> Answer:
        """Return what was recorded; whatever would change something is refused."""
        if method not in ("GET", "HEAD"):
            raise RefusedRequest(405, "OperationNotAllowed", headers={"Allow": "GET, HEAD"})
        answer = recording.find_answer(path, query)
        if answer is None:
            raise RefusedRequest(404, "ResourceMissingAtURI", path)
        return Answer(*answer)

    def _change_on_purpose(self, answer: Answer, method: str, path: str, query: str) -> Answer:
        """Leave one page in a collection, with a link to the next one; and whatever else a test wants to be changed."""
        size, members = self.host.faults.page_size, (answer.document or {}).get("Members")
        if size and isinstance(members, list):
            first = int(query.removeprefix("skip=") or 0)
            document = {**(answer.document or {}), "Members": members[first : first + size]}
            if first + size < len(members):
                document["Members@odata.nextLink"] = f"{path}?skip={first + size}"
            answer.document = document
        if self.host.faults.rewrite and method == "GET" and answer.document is not None:
            answer.document = self.host.faults.rewrite(path, answer.document)
        return answer

    def _switch_power(self, action: str, cold: bool) -> None:
        try:
            self.host.switch_power(action, cold)
        except VepycError as error:
            raise RefusedRequest(500, "GeneralError") from error

    def _authenticate(self, method: str, path: str, headers: Headers) -> str:
        if (method in ("GET", "HEAD") and path in PUBLIC_PATHS) or (
            method == "POST" and path in (SESSIONS, f"{SESSIONS}/Members")
        ):
            return ""
        return self.accounts.authenticate(headers)

    def _answer_method(self, method: str, path: str, headers: Headers, body: Any) -> Answer:
        if method in ("GET", "HEAD"):
            return self._answer_get(path)
        if method == "PATCH" and path == self.tree.pending:
            return self._answer_patch(headers, body)
        if method == "POST":
            return self._answer_post(path, body)
        if method == "DELETE":
            return self._answer_delete(path)
        raise self._unknown_resource_or_method(path)

    def _unknown_resource_or_method(self, path: str) -> RefusedRequest:
        if self.tree.find_resource(path) is None and path != self.tree.pending:
            return RefusedRequest(404, "ResourceMissingAtURI", path)
        return RefusedRequest(405, "OperationNotAllowed", headers={"Allow": self._format_allowed_methods(path)})

    def _format_allowed_methods(self, path: str) -> str:
        """Return the methods of a resource as the header Allow has them."""
        tree, folder = self.tree, path.rpartition("/")[0]
        methods = [
            *(["PATCH"] if path == tree.pending else []),
            *(["POST"] if path == SESSIONS or (path == tree.jobs and tree.data["jobs"]) else []),
            *(["DELETE"] if folder in (SESSIONS, tree.jobs) else []),
        ]
        return ", ".join(["GET", "HEAD", *methods])

    def _answer_get(self, path: str) -> Answer:
        if path == f"{ROOT}/$metadata":
            return Answer(200, text=_METADATA, headers={"Allow": "GET, HEAD"})
        nameless = self.host.faults.task_named_in == "nowhere" and path == self.tree.pending
        if nameless or path.startswith((f"{TASKS}/", f"{MONITORS}/")):
            self.tasks.note_question()
        if task := self.tasks.find_task(path):
            open_monitor = task.is_open and path.startswith(MONITORS)
            return Answer(202 if open_monitor else 200, task.build_document(), {"Retry-After": "2"})
        document = self.tree.find_resource(path)
        if document is None:
            raise RefusedRequest(404, "ResourceMissingAtURI", path)
        etag = {"ETag": document["@odata.etag"]} if "@odata.etag" in document else {}
        return Answer(200, document, {**etag, "Allow": self._format_allowed_methods(path)})

    def _answer_patch(self, headers: Headers, body: Any) -> Answer:
        host, bios, data = self.host, self.host.bios, self.tree.data
        self._require_etag(headers.get("If-Match"))
        if host.is_in_post and data.get("oem_post"):
            raise RefusedRequest(400, "iLO.2.24.UnableToModifyDuringSystemPOST")
        unknown = [name for name in body if name != "Attributes" and not name.startswith("@")]
        if unknown:
            raise RefusedRequest(400, "PropertyUnknown", unknown[0])
        if not isinstance(body.get("Attributes"), dict):
            raise RefusedRequest(400, "PropertyMissing", "Attributes")
        if host.faults.refused_in_success:
            return Answer(
                200, {"@Message.ExtendedInfo": [build_message("GeneralError", text=host.faults.refused_in_success)]}
            )
        if host.faults.task_polls:
            return self._answer_by_task(body)
        if host.faults.pending_stays and bios.pending:
            return Answer(200, {"@Message.ExtendedInfo": [build_message("Success")]})
        job = bios.store_pending(body["Attributes"], (body.get("@Redfish.SettingsApplyTime") or {}).get("ApplyTime"))
        if "OnReset" not in bios.apply_times:
            host.boot_machine()
        if job:
            return Answer(202, None, {"Location": f"{ROOT}/TaskService/{data.get('tasks_at', 'Tasks')}/{job.id}"})
        document = {"@Message.ExtendedInfo": [build_message("Success")]}
        return Answer(data["patch_status"], None if data["patch_status"] == 204 else document)

    def _answer_by_task(self, body: Any) -> Answer:
        task, place = self.tasks.begin_task(lambda: self.host.bios.store_pending(body["Attributes"], None)), ""
        place = {"location": MONITORS, "task": TASKS}.get(self.host.faults.task_named_in, "")
        document = task.build_document() if self.host.faults.task_named_in == "body" else None
        return Answer(202, document, {"Location": f"{place}/{task.id}"} if place else {})

    def _require_etag(self, if_match: str | None) -> None:
        """Raise RefusedRequest if If-Match is not the pending object's ETag, or is missing where required."""
        rule = self.host.faults.if_match or str(self.tree.data["if_match"])
        if rule == "all refused":
            raise RefusedRequest(412, "PreconditionFailed")
        if not if_match:
            if rule in ("required", "real", "of bios", "unquoted", "weak", "strong"):
                raise RefusedRequest(428, "PreconditionRequired")
            return
        if rule == "refused":
            raise RefusedRequest(412, "PreconditionFailed")
        if if_match == "*" and rule in ("no tags", "real"):
            raise RefusedRequest(400, "GeneralError")
        if self.host.faults.etag_races > 0:
            self.host.faults.etag_races -= 1
            self.host.bios.note_foreign_write()
            if if_match != "*":
                raise RefusedRequest(412, "PreconditionFailed")
        document = self.tree.find_resource(self.tree.bios if rule == "of bios" else self.tree.pending)
        shown = str(document["@odata.etag"]) if document else ""
        wanted = {"unquoted": shown.strip('"'), "strong": shown.removeprefix("W/")}.get(rule, shown)
        given = if_match if rule in ("weak", "strong") else if_match.removeprefix("W/")
        if if_match != "*" and given != wanted:
            raise RefusedRequest(412, "PreconditionFailed")

    def _answer_post(self, path: str, body: Any) -> Answer:
        bios, tree = self.host.bios, self.tree
        if path in (SESSIONS, f"{SESSIONS}/Members"):
            for name in ("UserName", "Password"):
                if not isinstance(body.get(name), str):
                    raise RefusedRequest(400, "PropertyMissing", name)
            return self._answer_login(body)
        if path == f"{tree.bios}/Actions/Bios.ResetBios":
            bios.defaults_pending = True
            return Answer(204)
        if path == tree.pending and not bios.has_pending_object:
            bios.has_pending_object = True
            return Answer(201, None, {"Location": path})
        if tree.data["jobs"] and path == f"{tree.pending}/Actions/Oem/DellManager.ClearPending":
            bios.clear_pending()
            return Answer(200, {"@Message.ExtendedInfo": [build_message("Success")]})
        if tree.data["jobs"] and path == tree.jobs:
            if body.get("TargetSettingsURI") != tree.pending:
                raise RefusedRequest(400, "PropertyMissing", "TargetSettingsURI")
            job = bios.create_job()
            return Answer(200, None, {"Location": f"{tree.jobs}/{job.id}"})
        raise self._unknown_resource_or_method(path)

    def _answer_login(self, body: Any) -> Answer:
        if status := self.host.faults.no_session_service:
            raise RefusedRequest(status, "NoValidSession" if status == 401 else "ResourceMissingAtURI", SESSIONS)
        session = self.accounts.open_session(body["UserName"], body["Password"])
        path, place = f"{SESSIONS}/{session.id}", self.host.faults.session_named_in
        document = self.tree.find_resource(path) or {}
        shown = {"location": [*document], "body": ["@odata.id"], "id": ["Id"]}.get(place, [])
        document = {key: value for key, value in document.items() if key in shown}
        location = {"Location": path} if place == "location" else {}
        return Answer(201, document, {**location, "X-Auth-Token": session.token})

    def _answer_delete(self, path: str) -> Answer:
        folder, _, name = path.rpartition("/")
        if folder == SESSIONS and name in self.accounts.sessions:
            if status := self.host.faults.session_end_status:
                raise RefusedRequest(status, "GeneralError")
            del self.accounts.sessions[name]
            return Answer(204)
        if folder == self.tree.jobs and name in self.host.bios.jobs:
            self.host.bios.delete_job(name)
            return Answer(200, {"@Message.ExtendedInfo": [build_message("Success")]})
        raise self._unknown_resource_or_method(path)

    def _power_action_of_reset(self, method: str, path: str, body: Any) -> str | None:
        """Return what a reset does to the machine, "cycle", "on", "off" or ""; None if the request is no reset."""
        if method != "POST" or path != f"{self.tree.system}/Actions/ComputerSystem.Reset":
            return None
        kind = body.get("ResetType")
        if kind is None:
            raise RefusedRequest(400, "ActionParameterMissing", "ComputerSystem.Reset", "ResetType")
        if kind not in self.tree.data["reset_types"]:
            raise RefusedRequest(400, "PropertyValueNotInList", str(kind), "ResetType")
        if kind == "PushPowerButton":
            return "off" if self.host.on else "on"
        if kind in RESTARTING_RESETS:
            return "cycle" if self.host.on else "on"
        if kind in SWITCHING_OFF_RESETS:
            return "off" if self.host.on else ""
        return "" if self.host.on else "on"
