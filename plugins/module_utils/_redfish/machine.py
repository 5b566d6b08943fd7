# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at the BIOS of a server: what is active, what is pending, which job waits, and how settings are sent.

Where makers differ: Lenovo calls the pending object Pending, AMI calls it SD and has none while nothing is pending,
Supermicro takes settings at the active object, and Dell applies them by a job alone.
Source: DMTF DSP8010, schemas ComputerSystem, Bios, Settings and AttributeRegistryFile.
"""

from __future__ import annotations

from .attributes.catalogue import vendor_of
from .attributes.registry import Registry
from .connection.client import ROOT
from .connection.responses import BmcError, Message, messages_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .attributes.registry import Value
    from .connection.client import Client
    from .connection.responses import Answer

#: Names of the pending object under that of the active settings, where the BMC does not say it.
PENDING_NAMES = ("Settings", "Pending", "SD")
#: States of the power-on self-test in which settings are refused or lost: HPE's, and those of the standard.
HPE_POST = ("InPost", "InPostDiscoveryComplete")
BOOTED = ("None", "OSBootStarted", "OSRunning", "OEM")
#: States of a job of Dell that waits or works.
OPEN_JOBS = ("New", "Scheduled", "Running", "Downloading", "Downloaded", "Scheduling", "ReadyForExecution", "Waiting")


class Job:
    """A job that applies BIOS settings at the next boot."""

    def __init__(self, path: str, told: Mapping[str, Any]) -> None:
        self.path = path
        self.id = str(told.get("Id") or path.rstrip("/").rsplit("/", 1)[-1])
        self.state = str(told.get("JobState") or told.get("TaskState") or "unknown")
        self.kind = str(told.get("JobType") or told.get("Name") or "")


class Machine:
    """What was found, and where to write."""

    def __init__(self, client: Client, system: Mapping[str, Any], bios: Answer, bios_path: str) -> None:
        self.client = client
        self.system = system
        self.bios = bios
        self.bios_path = bios_path
        self.vendor = vendor_of(str(system.get("Manufacturer") or ""))
        found = bios.body.get("Attributes")
        self.active: dict[str, Value] = dict(found) if isinstance(found, dict) else {}
        settings = bios.body.get("@Redfish.Settings")
        self.settings: Mapping[str, Any] = settings if isinstance(settings, dict) else {}
        #: Where values are sent to; that of the active ones where there is no other.
        self.target = bios_path
        self.target_etag = bios.etag
        self.target_exists = True
        self.staged: dict[str, Value] = {}
        self.apply_times: list[str] = []
        self.jobs: list[Job] = []
        self.jobs_path: str | None = None
        self.manager: str | None = None

    @property
    def model(self) -> str:
        """Return maker and model."""
        return " ".join(str(self.system.get(key) or "") for key in ("Manufacturer", "Model")).strip()

    @property
    def shown(self) -> dict[str, str | None]:
        """Return what of it the modules show."""
        names = ("vendor", "model", "bios_version", "power", "post")
        return {name: getattr(self, name) for name in names}

    @property
    def jobs_shown(self) -> list[dict[str, str]]:
        """Return what of its jobs the modules show."""
        return [{"id": job.id, "state": job.state} for job in self.jobs]

    @property
    def identity(self) -> str:
        """Return what tells this machine from others."""
        return str(self.system.get("UUID") or self.system.get("SerialNumber") or "")

    @property
    def bios_version(self) -> str:
        """Return the version of its BIOS."""
        return str(self.system.get("BiosVersion") or "")

    @property
    def power(self) -> str:
        """Return its power state."""
        return str(self.system.get("PowerState") or "unknown")

    @property
    def post(self) -> str | None:
        """Return the state of a power-on self-test that goes on; None where there is none, or nobody says."""
        if self.power.lower() == "off":
            return None
        oem = self.system.get("Oem") or {}
        hpe = (oem.get("Hpe") or oem.get("Hp") or {}).get("PostState") if isinstance(oem, dict) else None
        if hpe:
            return str(hpe) if hpe in HPE_POST else None
        progress = self.system.get("BootProgress")
        state = str(progress.get("LastState") or "None") if isinstance(progress, dict) else "None"
        return None if state in BOOTED else state

    @property
    def blind(self) -> bool:
        """Return whether the BMC does not show what waits for a boot: it takes settings where it shows active ones."""
        return self.target == self.bios_path

    @property
    def messages(self) -> list[Message]:
        """Return what the last boot said of the settings, without the successes: HPE puts one before all refusals."""
        return [one for one in messages_of(self.settings.get("Messages") or ()) if not one.good]

    @property
    def pending(self) -> dict[str, Value]:
        """Return what the next boot changes.

        While a job waits, some BMCs show its values as active already, so all that is staged then is pending.
        """
        if self.jobs and len(self.staged) < len(self.active):
            return dict(self.staged)
        return {name: value for name, value in self.staged.items() if self.active.get(name) != value}

    def registry(self) -> Registry:
        """Read the registry of its attributes."""
        name = str(self.bios.body.get("AttributeRegistry") or "")
        for path in self._registry_files(name):
            answer = self.client.find(path)
            for uri in _locations(answer.body if answer else {}):
                found = self.client.find(uri)
                registry = Registry(found.body if found else {})
                if len(registry):
                    return registry
        raise BmcError(
            f"The BMC {self.client.access.name} has no registry of BIOS attributes{f' ({name})' if name else ''}, so "
            "nobody can tell which values this machine takes. Boards of AMI hand it over in their self-test: start the "
            "machine once while its BMC is up, then run again. Nothing was changed."
        )

    def _registry_files(self, name: str) -> Iterator[str]:
        if name:
            yield f"{ROOT}/Registries/{name}"
        # Some collections call the entry otherwise than the resource calls the registry.
        collection = self.client.find(f"{ROOT}/Registries")
        for member in members_of(collection.body if collection else {}):
            last = member.rsplit("/", 1)[-1]
            if ("bios" in last.lower() and "attribute" in last.lower()) or (
                name and last.startswith(name.split(".")[0])
            ):
                yield member


def look(client: Client, system: str | None = None) -> Machine:
    """Read everything that decides what to send; five to seven requests."""
    told = system_of(client, system)
    path = link(told, "Bios")
    bios = client.find(path) if path else None
    if bios is None or not isinstance(bios.body.get("Attributes"), dict):
        raise BmcError(
            f"The BMC {client.access.name} does not show BIOS settings. OpenBMC as it comes has none, and boards of "
            "AMI show them after the first start with their BMC up. Nothing was changed."
        )
    machine = Machine(client, told, bios, path)
    _find_pending(machine)
    _find_jobs(machine)
    return machine


def members_of(collection: Mapping[str, Any]) -> list[str]:
    """Return the addresses of the members of a collection."""
    members = collection.get("Members")
    found = [one.get("@odata.id") for one in members if isinstance(one, dict)] if isinstance(members, list) else []
    return [str(one) for one in found if one]


def link(resource: Mapping[str, Any], *keys: str) -> str:
    """Return the address that a resource has under its keys, empty where it has none."""
    found: Any = resource
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return str(found.get("@odata.id") or "") if isinstance(found, dict) else ""


def system_of(client: Client, wanted: str | None) -> dict[str, Any]:
    """Return the server itself, of all systems that the BMC shows."""
    paths = members_of(client.get(f"{ROOT}/Systems"))
    if wanted:
        paths = [path for path in paths if path.rstrip("/").rsplit("/", 1)[-1] == wanted] or _no_system(
            client, paths, wanted
        )
    found = [told for told in map(client.get, paths) if link(told, "Bios")]
    # An add-in card with processors of its own is a system too.
    physical = [told for told in found if str(told.get("SystemType") or "Physical") == "Physical"]
    embedded = [told for told in physical if str(told.get("Id")) in ("1", "Self", "System.Embedded.1")]
    for some in (physical, embedded):
        if len(some) == 1:
            return some[0]
    if not found:
        raise BmcError(f"The BMC {client.access.name} shows no system with a BIOS. Nothing was changed.")
    names = ", ".join(str(told.get("Id")) for told in found)
    raise BmcError(f"The BMC {client.access.name} has several systems, {names}. Choose one with the option system.")


def _no_system(client: Client, paths: list[str], wanted: str) -> list[str]:
    names = ", ".join(path.rstrip("/").rsplit("/", 1)[-1] for path in paths) or "none"
    raise BmcError(f"The BMC {client.access.name} has no system {wanted}, but {names}.")


def _find_pending(machine: Machine) -> None:
    told = machine.settings
    machine.apply_times = [str(one) for one in told.get("SupportedApplyTimes") or ()]
    named = link(told, "SettingsObject")
    paths = [named] if named else [f"{machine.bios_path.rstrip('/')}/{name}" for name in PENDING_NAMES]
    for path in paths:
        answer = machine.client.find(path)
        if answer is not None:
            machine.target, machine.target_etag = path, answer.etag
            found = answer.body.get("Attributes")
            machine.staged = dict(found) if isinstance(found, dict) else {}
            support = answer.body.get("@Redfish.SettingsApplyTime")
            offered = support.get("ApplyTime@Redfish.AllowableValues") if isinstance(support, dict) else None
            machine.apply_times = machine.apply_times or [str(one) for one in offered or ()]
            return
    if named:
        # The object comes into being when something is sent to it.
        machine.target, machine.target_etag, machine.target_exists = named, None, False
    elif machine.vendor != "Supermicro":
        raise BmcError(
            f"The BMC {machine.client.access.name} does not say where settings that wait for a boot are, and has them "
            f"at none of the usual places ({', '.join(PENDING_NAMES)}). Nothing was changed."
        )


def _find_jobs(machine: Machine) -> None:
    if machine.vendor != "Dell":
        return
    managers = machine.system.get("Links", {}).get("ManagedBy") or ()
    paths = [str(one.get("@odata.id")) for one in managers if isinstance(one, dict)]
    paths = paths or members_of(machine.client.get(f"{ROOT}/Managers"))
    if not paths:
        return
    machine.manager = paths[0]
    manager = machine.client.get(machine.manager)
    named = link(manager, "Links", "Oem", "Dell", "Jobs") or link(manager, "Jobs")
    for path in [named] if named else [f"{machine.manager}/Oem/Dell/Jobs", f"{machine.manager}/Jobs"]:
        found = machine.client.find(f"{path}?$expand=*($levels=1)") or machine.client.find(path)
        if found is None:
            continue
        machine.jobs_path = path
        for one in found.body.get("Members") or ():
            where = str(one.get("@odata.id") or "")
            told = one if "JobState" in one else machine.client.get(where)
            job = Job(where, told)
            if job.state in OPEN_JOBS and "bios" in job.kind.lower():
                machine.jobs.append(job)
        return


def _locations(told: Mapping[str, Any]) -> list[str]:
    """Return where the registry is, the English one first."""
    if isinstance(told.get("RegistryEntries"), dict):
        return [str(told.get("@odata.id"))]
    places = [one for one in told.get("Location") or () if isinstance(one, dict) and one.get("Uri")]
    places.sort(key=lambda one: not str(one.get("Language") or "en").lower().startswith("en"))
    return [str(one["Uri"]) for one in places]
