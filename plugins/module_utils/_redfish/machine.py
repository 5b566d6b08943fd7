# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS of a server as its BMC shows it: active and pending settings, waiting jobs, and the place of new settings.

Vendors differ. Lenovo calls the resource with pending settings Pending. AMI calls it SD, and has none while nothing is
pending. Supermicro takes new settings at the resource of the active settings. Dell applies settings only by a job.
Source: DMTF DSP8010, schemas ComputerSystem, Bios, Settings and AttributeRegistryFile.
"""

from __future__ import annotations

from .attributes.catalogue import detect_vendor
from .connection.client import SERVICE_ROOT
from .connection.collections import fetch_expanded_members, fetch_member_paths, list_paths
from .connection.responses import BmcError, Message, parse_messages
from .connection.shapes import list_or_empty, object_or_empty
from .jobs import OPEN_JOB_STATES, Job
from .systems import System, find_nested_link_path, find_system_by_name_or_only_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attributes.registry import Registry, Value
    from .connection.client import RedfishClient
    from .connection.responses import Response

#: Usual names of the resource with pending settings, below that of the active settings, for BMCs without a link.
PENDING_NAMES = ("Settings", "Pending", "SD")
#: States in which HPE's power-on self-test runs, so that settings are refused or lost.
HPE_SELF_TEST_STATES = ("InPost", "InPostDiscoveryComplete")
#: Standard states of the boot in which no self-test runs.
BOOTED_STATES = ("None", "OSBootStarted", "OSRunning", "OEM")


class Machine:
    """The BIOS of a server at the time of the reading, and the resource to which new settings are sent."""

    def __init__(self, client: RedfishClient, system: System, bios: Response) -> None:
        self.client = client
        self.system = system.resource
        self.system_path = system.path
        #: A sentence on why this may not be the server; "" where it is sure.
        self.doubt = system.doubt
        bios_path = system.bios_path
        self.bios = bios
        self.bios_path = bios_path
        self.vendor = detect_vendor(str(self.system.get("Manufacturer") or ""))
        self.active: dict[str, Value] = dict(object_or_empty(bios.body.get("Attributes")))
        self.settings: Mapping[str, Any] = object_or_empty(bios.body.get("@Redfish.Settings"))
        #: The resource to which new values are sent; by default the resource of the active values.
        self.settings_path = bios_path
        self.settings_etag = bios.etag
        self.settings_exist = True
        #: A sentence on why no settings can be sent to this BMC; "" where they can.
        self.no_place_reason = ""
        self.staged: dict[str, Value] = {}
        self.apply_times: list[str] = []
        self.jobs: list[Job] = []
        self.jobs_path: str | None = None
        #: Why the job that was to apply the settings of an earlier run failed; "" where none failed.
        self.failure_of_last_job = ""
        #: Sentences on what the BMC says, for the people who run this.
        self.remarks: list[str] = []
        #: The registry of the attributes, once it was fetched; the values are in its spelling from then on.
        self.registry: Registry | None = None
        #: Names of attributes that are requested, or that an earlier run has sent.
        self.own_names: set[str] = set()
        self.manager: str | None = None

    @property
    def bmc_name(self) -> str:
        return self.client.access.bmc_name

    def read_machine_again(self) -> Machine:
        """Fetch everything of this very machine once more."""
        system = System(self.system_path, self.client.fetch_resource_body(self.system_path))
        system.doubt = self.doubt
        machine = _read_machine(self.client, system)
        machine.own_names, machine.remarks = self.own_names, self.remarks
        machine.failure_of_last_job = self.failure_of_last_job
        if self.registry:
            machine.use_spelling_of_registry(self.registry)
        return machine

    def use_spelling_of_registry(self, registry: Registry) -> None:
        """Have all values in the spelling of the registry, so that equal values are equal."""
        self.registry = registry
        self.active = registry.normal_forms(self.active)
        self.staged = registry.normal_forms(self.staged)

    @property
    def model(self) -> str:
        return " ".join(str(self.system.get(key) or "") for key in ("Manufacturer", "Model")).strip()

    @property
    def summary(self) -> dict[str, str | None]:
        return {
            "vendor": self.vendor,
            "model": self.model,
            "bios_version": self.bios_version,
            "power": self.power_state,
            "post": self.self_test_state,
        }

    @property
    def job_summaries(self) -> list[dict[str, str]]:
        return [{"id": job.id, "state": job.state} for job in self.jobs]

    @property
    def uuid_or_serial_number(self) -> str:
        """Return the UUID of the machine, or else its serial number, or else ""."""
        return str(self.system.get("UUID") or self.system.get("SerialNumber") or "")

    @property
    def bios_version(self) -> str:
        return str(self.system.get("BiosVersion") or "")

    @property
    def power_state(self) -> str:
        """Return the power state as the BMC spells it, "unknown" where it gives none."""
        return str(self.system.get("PowerState") or "unknown")

    @property
    def self_test_state(self) -> str | None:
        """Return the state of a running power-on self-test; None where none is running or the BMC does not say."""
        if self.power_state.lower() == "off":
            return None
        oem = object_or_empty(self.system.get("Oem"))
        hpe = object_or_empty(oem.get("Hpe") or oem.get("Hp")).get("PostState")
        if hpe:
            return str(hpe) if hpe in HPE_SELF_TEST_STATES else None
        state = str(object_or_empty(self.system.get("BootProgress")).get("LastState") or "None")
        return None if state in BOOTED_STATES else state

    @property
    def hides_pending_settings(self) -> bool:
        """Return whether the BMC has no resource with pending settings, and takes new settings at the active ones."""
        return self.settings_path == self.bios_path

    @property
    def failure_messages_of_last_boot(self) -> list[Message]:
        """Return the messages of the last boot about settings, without those that only report a success."""
        return [message for message in parse_messages(self.settings.get("Messages")) if not message.is_success]

    @property
    def pending_values(self) -> dict[str, Value]:
        """Return the values that the next boot changes.

        Some BMCs show the values of a waiting job as active already, so all staged values count while a job waits.
        """
        # Where the resource with pending settings repeats active ones, an attribute that only this resource has is no
        # change of anybody: it belongs to a device that is not there, or cannot be set now.
        repeats_active = any(name in self.active and self.active[name] == value for name, value in self.staged.items())
        staged = {
            name: value
            for name, value in self.staged.items()
            if not repeats_active or name in self.active or name in self.own_names
        }
        if self.jobs and len(self.staged) < len(self.active):
            return staged
        return {name: value for name, value in staged.items() if self.active.get(name) != value}


def read_machine_settings_and_jobs(client: RedfishClient, system_id: str | None = None) -> Machine:
    """Fetch a system, its active and pending settings and its open jobs; this takes five to seven requests."""
    return _read_machine(client, find_system_by_name_or_only_server(client, system_id))


def _read_machine(client: RedfishClient, system: System) -> Machine:
    path = system.bios_path
    bios = client.fetch_resource_if_present(path) if path else None
    if bios is None or not isinstance(bios.body.get("Attributes"), dict):
        raise BmcError(
            f"The BMC {client.access.bmc_name} does not show BIOS settings. OpenBMC without additions has none, and "
            "boards of AMI show them after the first start with their BMC up. Nothing was changed."
        )
    machine = Machine(client, system, bios)
    _read_pending_settings_into_machine(machine)
    _read_open_bios_jobs_of_dell(machine)
    return machine


def _read_pending_settings_into_machine(machine: Machine) -> None:
    settings = machine.settings
    machine.apply_times = _list_texts(settings.get("SupportedApplyTimes"))
    linked_path = find_nested_link_path(settings, "SettingsObject")
    paths = [linked_path] if linked_path else [f"{machine.bios_path.rstrip('/')}/{name}" for name in PENDING_NAMES]
    for path in paths:
        response = machine.client.fetch_resource_if_present(path)
        if response is not None:
            machine.settings_path, machine.settings_etag = path, response.etag
            machine.staged = dict(object_or_empty(response.body.get("Attributes")))
            machine.apply_times = machine.apply_times or _list_apply_times(response.body)
            return
    if linked_path:
        # The BMC creates the resource when settings are sent to its path for the first time.
        machine.settings_path, machine.settings_etag, machine.settings_exist = linked_path, None, False
    elif machine.vendor != "Supermicro":
        machine.no_place_reason = (
            f"The BMC {machine.bmc_name} gives no link to its pending settings, and has them at none of the usual "
            f"places ({', '.join(PENDING_NAMES)}), so it is not known where it takes new ones."
        )


def _list_apply_times(resource: Mapping[str, Any]) -> list[str]:
    """Return the apply times that a resource with pending settings offers; [] for one that names none."""
    for key, allowed_key in (
        ("@Redfish.SettingsApplyTime", "ApplyTime@Redfish.AllowableValues"),
        ("@Redfish.OperationApplyTimeSupport", "SupportedValues"),
    ):
        apply_times = _list_texts(object_or_empty(resource.get(key)).get(allowed_key))
        if apply_times:
            return apply_times
    return []


def _list_texts(value: object) -> list[str]:
    return [entry.strip() for entry in list_or_empty(value) if isinstance(entry, str)]


def _read_open_bios_jobs_of_dell(machine: Machine) -> None:
    if machine.vendor != "Dell":
        return
    paths = list_paths(object_or_empty(machine.system.get("Links")).get("ManagedBy"))
    paths = paths or fetch_member_paths(machine.client, f"{SERVICE_ROOT}/Managers") or []
    if not paths:
        return
    machine.manager = paths[0]
    manager = machine.client.fetch_resource_body(machine.manager)
    linked_path = find_nested_link_path(manager, "Links", "Oem", "Dell", "Jobs") or find_nested_link_path(
        manager, "Jobs"
    )
    for path in [linked_path] if linked_path else [f"{machine.manager}/Oem/Dell/Jobs", f"{machine.manager}/Jobs"]:
        members = fetch_expanded_members(machine.client, path)
        if members is None:
            continue
        machine.jobs_path = path
        for entry in members:
            job_path = str(entry.get("@odata.id") or "")
            resource = entry if "JobState" in entry else machine.client.fetch_resource_body(job_path)
            job = Job(job_path, resource)
            if job.state in OPEN_JOB_STATES and "bios" in job.kind.lower():
                machine.jobs.append(job)
        return
