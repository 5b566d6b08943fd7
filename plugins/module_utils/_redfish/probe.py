# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What would work with a BMC that nobody has tried: each thing that a run needs is read, and nothing is sent.

A thing that cannot be read is a sentence, and does not end the probe.
"""

from __future__ import annotations

from .._notation.text_table import format_aligned_columns
from .attributes.catalogue import BIOS_OPTIONS
from .attributes.locks import find_lock_under_future_values
from .attributes.resolve import attribute_value_to_option_value, find_attribute_of_option
from .connection.client import BASIC, SERVICE_ROOT
from .connection.responses import BmcError
from .machine import read_machine_settings_and_jobs
from .recording import build_recording
from .registry_files import fetch_attribute_registry
from .sending import ON_RESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .attributes.registry import Registry
    from .connection.client import RedfishClient
    from .machine import Machine

#: Verdicts on a thing that a run needs: it works, it would end a run that sets something, or it may matter.
WORKS, HINDERS, REMARK = "works", "hinders", "remark"
MAX_EXAMPLES = 3


class Probe:
    """The findings on a BMC, each with a subject, a verdict and a sentence."""

    def __init__(self) -> None:
        self.findings: list[dict[str, str]] = []

    def add(self, subject: str, verdict: str, sentence: str) -> None:
        self.findings.append({"subject": subject, "verdict": verdict, "sentence": sentence})

    @property
    def hindrances(self) -> list[str]:
        return [finding["sentence"] for finding in self.findings if finding["verdict"] == HINDERS]

    def render(self) -> str:
        """Return the findings as a table for people."""
        rows = [(finding["subject"], finding["verdict"], finding["sentence"]) for finding in self.findings]
        return format_aligned_columns([("what", "verdict", "finding"), *rows])


def probe_bmc(client: RedfishClient, system_name: str | None) -> dict[str, Any]:
    """Read from a BMC all that a run would read, and return the findings and a recording without names and secrets."""
    client.recorded = {}
    probe = Probe()
    machine, registry = None, None
    _probe_service(client, probe)
    try:
        machine = read_machine_settings_and_jobs(client, system_name)
        _probe_machine(machine, probe)
    except BmcError as error:
        probe.add("BIOS", HINDERS, str(error))
    if machine is not None:
        _probe_pending_settings(machine, probe)
        shown = {**machine.active}
        try:
            registry = fetch_attribute_registry(machine)
            _probe_registry(machine, registry, shown, probe)
        except BmcError as error:
            probe.add("registry", HINDERS, str(error))
    options = _list_options(machine, registry) if machine and registry else {}
    if options:
        missing = [option for option, entry in options.items() if entry["attribute"] is None]
        without = f", and none for {', '.join(missing)}" if missing else ""
        sentence = f"{len(options) - len(missing)} of {len(options)} options have an attribute here{without}."
        probe.add("options", REMARK if missing else WORKS, sentence)
    names = {client.access.bmc_name: "bmc.example.com", client.access.host_name: "bmc.example.com"}
    names[client.access.username] = "user"
    return {
        "can_be_set": not probe.hindrances,
        "findings": probe.findings,
        "options": options,
        "text": probe.render(),
        "recording": build_recording(client.recorded, registry, names, client.access.scrubber),
    }


def _probe_service(client: RedfishClient, probe: Probe) -> None:
    try:
        root = client.fetch_resource_body(SERVICE_ROOT)
        words = [str(root[key]) for key in ("Vendor", "Product", "RedfishVersion") if root.get(key)]
        probe.add("service", WORKS, f"It calls itself {', '.join(words) or 'nothing'}.")
    except BmcError as error:
        probe.add("service", REMARK, str(error))
    if client.access.auth == BASIC:
        probe.add(
            "sessions", REMARK, "The password was sent with each request; without auth: basic a session is begun."
        )
    elif client.session_place:
        probe.add("sessions", WORKS, f"A session was begun, and is named by {client.session_place}.")
    else:
        probe.add("sessions", REMARK, "A session was begun, and the BMC did not name it, so it may not be ended.")
    try:
        tasks = client.fetch_resource_if_present(f"{SERVICE_ROOT}/TaskService")
        probe.add("tasks", WORKS, "It has a service of tasks." if tasks else "It has no service of tasks.")
    except BmcError as error:
        probe.add("tasks", REMARK, str(error))


def _probe_machine(machine: Machine, probe: Probe) -> None:
    verdict, sentence = (
        (HINDERS, machine.doubt)
        if machine.doubt
        else (WORKS, f"It is {machine.model}; options are looked for by the names of {machine.vendor}.")
    )
    probe.add("server", verdict, sentence)
    probe.add("BIOS", WORKS, f"Version {machine.bios_version or 'unknown'} shows {len(machine.active)} attributes.")
    state = machine.self_test_state
    if state:
        probe.add("self-test", REMARK, f"The BMC says that the server is in its self-test ({state}).")


def _probe_pending_settings(machine: Machine, probe: Probe) -> None:
    if machine.no_place_reason:
        probe.add("pending settings", HINDERS, machine.no_place_reason)
        return
    hidden = machine.hides_pending_settings
    place = "are taken at the active settings, and are not shown" if hidden else f"are at {machine.settings_path}"
    probe.add("pending settings", WORKS, f"They {place}; {len(machine.pending_values)} wait now.")
    times = ", ".join(machine.apply_times)
    if machine.apply_times and ON_RESET not in machine.apply_times:
        probe.add("apply times", HINDERS, f"It offers only {times}, and no setting is sent to be applied at once.")
    else:
        probe.add("apply times", WORKS if times else REMARK, f"It offers {times}." if times else "It names none.")
    tag = machine.settings_etag
    kind = "no entity tag" if not tag else "a weak entity tag" if tag.startswith("W/") else "an entity tag"
    probe.add("entity tags", WORKS if tag else REMARK, f"Its settings have {kind}.")
    if machine.jobs:
        probe.add("jobs", REMARK, f"{', '.join(job.id for job in machine.jobs)} wait for a boot.")


def _probe_registry(machine: Machine, registry: Registry, shown: dict[str, Any], probe: Probe) -> None:
    locked = sum(any(attribute.flags.values()) for attribute in registry.attributes.values())
    probe.add(
        "registry",
        WORKS,
        f"{registry.name or 'It'} has {len(registry)} attributes, {locked} of them locked now, and "
        f"{len(registry.dependencies)} dependencies.",
    )
    odd = [name for name, value in shown.items() if name in registry.attributes and machine.active[name] != value]
    unknown = [name for name in shown if name not in registry.attributes]
    if odd:
        probe.add("spelling", REMARK, f"{len(odd)} values differ from the registry's spelling: {_examples(odd)}.")
    if unknown:
        probe.add("spelling", REMARK, f"{len(unknown)} attributes are not in the registry: {_examples(unknown)}.")


def _examples(names: list[str]) -> str:
    return ", ".join(names[:MAX_EXAMPLES]) + (" and others" if len(names) > MAX_EXAMPLES else "")


def _list_options(machine: Machine, registry: Registry) -> dict[str, dict[str, Any]]:
    """Return by option its attribute, its active value as the option has it, and its lock; None for what is missing."""
    options = {}
    for option in BIOS_OPTIONS:
        attribute = find_attribute_of_option(registry, machine.vendor, option)
        entry: dict[str, Any] = {"attribute": None, "active": None, "takes": None, "lock": None}
        if attribute is not None:
            value = machine.active.get(attribute.name)
            lock = find_lock_under_future_values(registry, attribute.name, machine.active, machine.active)
            entry = {
                "attribute": attribute.name,
                "active": attribute_value_to_option_value(option, attribute, value, machine.vendor),
                "takes": attribute.format_allowed_values(),
                "lock": str(lock) if lock else None,
            }
        options[option] = entry
    return options
