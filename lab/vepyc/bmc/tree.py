# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of the service, which a GET builds from the machine's state at that moment."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from .accounts import Accounts
from .errors import RefusedRequest
from .host import Host

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
#: Paths that need no authentication, by the standard.
PUBLIC_PATHS = ("/redfish", ROOT, f"{ROOT}/odata", f"{ROOT}/$metadata")
Document = dict[str, Any]


class Tree:
    """The resources of one BMC by their paths, without a slash at the end."""

    def __init__(self, host: Host, accounts: Accounts) -> None:
        self.host = host
        self.accounts = accounts
        self.data = host.personality.data
        self.system = f"{ROOT}/Systems/{self.data['system']}"
        self.manager = f"{ROOT}/Managers/{self.data['manager']}"
        self.bios = f"{self.system}/Bios"
        self.pending = f"{self.bios}/{self.data['settings']}".rstrip("/")
        self.jobs = f"{self.manager}/{self.data.get('jobs_at', 'Jobs')}"
        self.registry = str(self.data["registry"]["uri"])
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, self.system))
        self._documents: dict[str, Callable[[], Document]] = {
            "/redfish": lambda: {"v1": f"{ROOT}/"},
            ROOT: self._build_root,
            f"{ROOT}/odata": self._build_odata,
            f"{ROOT}/Systems": lambda: _build_collection(f"{ROOT}/Systems", "ComputerSystem", self._system_paths),
            self.system: self._build_system,
            self.bios: self._build_bios,
            f"{ROOT}/Managers": lambda: _build_collection(f"{ROOT}/Managers", "Manager", [self.manager]),
            self.manager: self._build_manager,
            f"{ROOT}/Registries": lambda: _build_collection(
                f"{ROOT}/Registries",
                "MessageRegistryFile",
                self._registry_paths,
            ),
            f"{ROOT}/SessionService": self._build_session_service,
            SESSIONS: lambda: _build_collection(
                SESSIONS, "Session", [f"{SESSIONS}/{name}" for name in accounts.sessions]
            ),
            f"{ROOT}/AccountService": self._build_account_service,
            f"{ROOT}/AccountService/Accounts": lambda: _build_collection(
                f"{ROOT}/AccountService/Accounts", "ManagerAccount", [f"{ROOT}/AccountService/Accounts/1"]
            ),
            f"{ROOT}/AccountService/Accounts/1": self._build_account,
            f"{ROOT}/AccountService/Roles": lambda: _build_collection(
                f"{ROOT}/AccountService/Roles", "Role", [f"{ROOT}/AccountService/Roles/Administrator"]
            ),
            f"{ROOT}/AccountService/Roles/Administrator": self._build_role,
        }

    @property
    def _registry_file_path(self) -> str:
        odd = self.host.faults.registry_named_by == "odd name"
        return f"{ROOT}/Registries/{'Setup.v1' if odd else self.data['registry']['name']}"

    @property
    def _registry_paths(self) -> list[str]:
        """The paths of registries; those of messages are only shown by faults, and have no resource here."""
        messages = [f"{ROOT}/Registries/{name}" for name in ("Base.1.18.0", "Oem.1.0")]
        is_alone = not self.host.faults.page_size and self.host.faults.registry_named_by != "odd name"
        others = [] if is_alone else messages
        return [] if self.host.faults.no_registry else [*others, self._registry_file_path]

    @property
    def _system_paths(self) -> list[str]:
        return [*(f"{ROOT}/Systems/{name}" for name in self.host.faults.more_systems), self.system]

    def find_resource(self, path: str) -> Document | None:
        """Return the resource of this path, None if there is none."""
        document = self._build_resource_of_path(path)
        if document and self.host.faults.if_match == "no tags":
            document.pop("@odata.etag", None)
        return document

    def _build_resource_of_path(self, path: str) -> Document | None:
        name = path.removeprefix(f"{ROOT}/Systems/").removesuffix("/Bios")
        if name in self.host.faults.more_systems:
            return self._build_further_system(path, name)
        if path in self._documents:
            return self._documents[path]()
        host, bios = self.host, self.host.bios
        if path == self.pending:
            return (
                self._build_settings()
                if bios.has_pending_object and (bios.pending or not host.faults.pending_404)
                else None
            )
        if not host.faults.no_registry and path == self._registry_file_path:
            return self._build_registry_file()
        if not host.faults.no_registry and path == self.registry:
            return {"@odata.id": self.registry, **bios.registry.build_document(bios.active)}
        folder, _, name = path.rpartition("/")
        if folder == SESSIONS and name in self.accounts.sessions:
            return _build_resource(
                path, "Session.v1_7_0.Session", "User Session", UserName=self.accounts.sessions[name].user
            )
        if self.data["jobs"]:
            return self._find_job(path, folder, name)
        return None

    def _build_root(self) -> Document:
        links = {
            name: _build_link(f"{ROOT}/{name}") for name in ("Systems", "Managers", "Registries", "SessionService")
        }
        extra = {"Vendor": self.data["vendor"], "Product": self.data["product"], "UUID": self.uuid}
        return {
            **_build_resource(f"{ROOT}/", "ServiceRoot.v1_16_0.ServiceRoot", "Root Service", Id="RootService"),
            "RedfishVersion": "1.17.0",
            **extra,
            **links,
            "AccountService": _build_link(f"{ROOT}/AccountService"),
            "Links": {"Sessions": _build_link(SESSIONS)},
            "ProtocolFeaturesSupported": {"SelectQuery": False, "FilterQuery": False, "OnlyMemberQuery": False},
        }

    def _build_odata(self) -> Document:
        names = ("Systems", "Managers", "Registries", "SessionService", "AccountService")
        value = [{"name": name, "kind": "Singleton", "url": f"{ROOT}/{name}"} for name in ("Service", *names)]
        value[0]["url"] = f"{ROOT}/"
        return {"@odata.context": f"{ROOT}/$metadata", "value": value}

    def _build_system(self) -> Document:
        host = self.host
        last = "MemoryInitializationStarted" if host.is_in_post else "OSRunning" if host.on else "None"
        document = _build_resource(
            self.system, "ComputerSystem.v1_20_1.ComputerSystem", "System", SystemType="Physical"
        )
        document |= {
            "Manufacturer": self.data["manufacturer"],
            "Model": self.data["model"],
            "UUID": self.uuid,
            "BiosVersion": self.data["bios_version"],
            "PowerState": "On" if host.on else "Off",
            "BootProgress": {"LastState": last},
            "Status": {"State": "Enabled" if host.on else "Disabled", "Health": "OK"},
            "ProcessorSummary": {"Count": 1, "Model": self.data["processor"]},
            "Bios": _build_link(self.bios),
            "Links": {"ManagedBy": [_build_link(self.manager)]},
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": f"{self.system}/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": self.data["reset_types"],
                }
            },
        }
        if self.data.get("oem_post"):
            state = "InPost" if host.is_in_post else "FinishedPost" if host.on else "PowerOff"
            document["Oem"] = {self.data["oem_post"]: {"PostState": state}}
        return {**document, **host.faults.system_shows}

    def _build_further_system(self, path: str, name: str) -> Document:
        """Return another system, or its BIOS; both look like those of the server."""
        if path.endswith("/Bios"):
            return {**self._build_bios(), "@odata.id": path}
        system = f"{ROOT}/Systems/{name}"
        document = json.loads(json.dumps(self._build_system()).replace(self.system, system)) | {"Id": name}
        document |= self.host.faults.more_systems[name]
        if status := document.get("status"):
            raise RefusedRequest(int(status), "GeneralError")
        return {key: value for key, value in document.items() if value is not None}

    def _build_bios(self) -> Document:
        bios = self.host.bios
        document = _build_resource(self.bios, "Bios.v1_2_1.Bios", "BIOS Configuration Current Settings")
        document["Attributes"] = bios.active_attributes()
        document["@odata.etag"] = bios.compute_etag(bios.active_attributes() | bios.pending)
        if not self.host.faults.no_registry:
            document["AttributeRegistry"] = self.data["registry"]["name"]
        document["Actions"] = {"#Bios.ResetBios": {"target": f"{self.bios}/Actions/Bios.ResetBios"}}
        document["ResetBiosToDefaultsPending"] = bios.defaults_pending
        document |= self.data.get("bios_shows", {})
        if self.pending != self.bios and not self.host.faults.no_settings_link:
            settings: Document = {
                "@odata.type": "#Settings.v1_3_5.Settings",
                "SettingsObject": _build_link(self.pending),
            }
            if self.host.faults.apply_times_named_in == "bios":
                settings["SupportedApplyTimes"] = bios.apply_times
            if bios.messages:
                settings |= {"Messages": bios.messages, "Time": "2026-01-01T00:00:00Z"}
            document["@Redfish.Settings"] = settings
        return document

    def _build_settings(self) -> Document:
        shown = self.host.bios.pending_attributes()
        document = _build_resource(self.pending, "Bios.v1_2_1.Bios", "BIOS Configuration Pending Settings")
        document["Attributes"] = shown
        document["@odata.etag"] = self.host.bios.compute_etag(shown)
        document["AttributeRegistry"] = self.data["registry"]["name"]
        times, place = self.host.bios.apply_times, self.host.faults.apply_times_named_in
        if place == "pending":
            document["@Redfish.SettingsApplyTime"] = {"ApplyTime@Redfish.AllowableValues": times}
        if place == "operations":
            document["@Redfish.OperationApplyTimeSupport"] = {"SupportedValues": times}
        if self.data["jobs"]:
            target = f"{self.pending}/Actions/Oem/DellManager.ClearPending"
            document["Actions"] = {"Oem": {"#DellManager.ClearPending": {"target": target}}}
        return document

    def _build_manager(self) -> Document:
        document = _build_resource(
            self.manager, "Manager.v1_19_0.Manager", "Manager", ManagerType="BMC", FirmwareVersion="1.0"
        )
        document["Links"] = {"ManagerForServers": [_build_link(self.system)]}
        if self.data["jobs"]:
            document["Links"]["Oem"] = {"Dell": {"Jobs": _build_link(self.jobs)}}
        return document

    def _build_registry_file(self) -> Document:
        name = self.data["registry"]["name"]
        document = _build_resource(
            self._registry_file_path, "MessageRegistryFile.v1_1_3.MessageRegistryFile", "BIOS Attribute Registry"
        )
        return {
            **document,
            "Registry": name,
            "Languages": ["en"],
            "Location": [
                {
                    "Language": "en",
                    "Uri": {"extref": self.registry}
                    if self.host.faults.registry_named_by == "extref"
                    else self.registry,
                }
            ],
        }

    def _find_job(self, path: str, folder: str, name: str) -> Document | None:
        jobs = self.host.bios.jobs
        if path == self.jobs:
            return _build_collection(self.jobs, "DellJob", [f"{self.jobs}/{job}" for job in jobs])
        if (
            folder not in (self.jobs, f"{ROOT}/TaskService/Tasks", f"{ROOT}/TaskService/TaskMonitors")
            or name not in jobs
        ):
            return None
        job = jobs[name]
        if folder == self.jobs:
            document = _build_resource(
                path, "DellJob.v1_5_0.DellJob", "Configure: BIOS.Setup.1-1", JobType="BIOSConfiguration"
            )
            return {
                **document,
                "JobState": job.state,
                "PercentComplete": job.percent,
                "Message": job.message or f"Job {job.state}.",
            }
        state = "Completed" if job.state == "Completed" else "Starting"
        return _build_resource(path, "Task.v1_7_1.Task", "Task", TaskState=state, TaskStatus="OK")

    def _build_session_service(self) -> Document:
        path = f"{ROOT}/SessionService"
        document = _build_resource(path, "SessionService.v1_1_9.SessionService", "Session Service", ServiceEnabled=True)
        return {**document, "SessionTimeout": 1800, "Sessions": _build_link(SESSIONS)}

    def _build_account_service(self) -> Document:
        path = f"{ROOT}/AccountService"
        document = _build_resource(
            path, "AccountService.v1_15_0.AccountService", "Account Service", ServiceEnabled=True
        )
        document |= {"AccountLockoutThreshold": self.accounts.lock_after, "MinPasswordLength": 8}
        return {**document, "Accounts": _build_link(f"{path}/Accounts"), "Roles": _build_link(f"{path}/Roles")}

    def _build_account(self) -> Document:
        path = f"{ROOT}/AccountService/Accounts/1"
        document = _build_resource(
            path, "ManagerAccount.v1_12_0.ManagerAccount", "User Account", UserName=self.accounts.user
        )
        document |= {"Password": None, "Enabled": True, "Locked": self.accounts.is_locked, "RoleId": "Administrator"}
        return {
            **document,
            "@odata.etag": f'"{int(self.accounts.is_locked)}"',
            "AccountTypes": ["Redfish"],
            "Links": {"Role": _build_link(f"{ROOT}/AccountService/Roles/Administrator")},
        }

    def _build_role(self) -> Document:
        path = f"{ROOT}/AccountService/Roles/Administrator"
        privileges = ["Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"]
        document = _build_resource(path, "Role.v1_3_2.Role", "Administrator", IsPredefined=True, RoleId="Administrator")
        return {**document, "AssignedPrivileges": privileges}


def _build_link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def _build_resource(path: str, kind: str, name: str, **properties: Any) -> Document:
    return {"@odata.id": path, "@odata.type": f"#{kind}", "Id": path.rpartition("/")[2], "Name": name, **properties}


def _build_collection(path: str, kind: str, members: list[str]) -> Document:
    name = f"{kind}Collection"
    document: Document = {"@odata.id": path, "@odata.type": f"#{name}.{name}", "Name": f"{kind} Collection"}
    return {**document, "Members": [_build_link(member) for member in members], "Members@odata.count": len(members)}
