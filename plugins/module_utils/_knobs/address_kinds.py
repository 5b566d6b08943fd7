# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of addresses that belong to no knob: one row for each prefix, as the catalogue has one for each knob.

Every module prints its changes with this table, so the table imports neither the catalogue nor any knob.
"""

from __future__ import annotations

from .._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Optional, Union

    Place = Union[int, str]
    #: Defined here again because Ansible sends every imported file to the hosts, even if only types are imported.
    Words = tuple[str, str, Optional[Place]]

#: The text for a missing value.
NOTHING = "nothing"
#: The address of the stored intent. Its value is printed, unlike those of the stored requests.
INTENT = "desired:intent"
#: The layers of a drift report that are no knobs. RUN has the runs of site.yml that did not end.
RUN, BIOS, LLAMA, BOOT, OTHER = "run", "bios", "llama", "boot", "other"
LAYER_TITLES = {RUN: "run of site.yml", BIOS: "BIOS", LLAMA: "llama.cpp", BOOT: "boot service", OTHER: "other tasks"}
#: The layer that reports the CPUs of roles, because the settings of this knob decide which CPUs are online.
SYSFS = "sysfs"
UNITS = {
    "sovereign-epyc.service": "boot service",
    "sovereign-epyc-agent.service": "service of the agent",
    "sovereign-epyc-agent.socket": "socket of the agent",
    "sovereign-epyc-watch.service": "watch service",
    "sovereign-epyc-check.service": "service of the check",
    "sovereign-epyc-check.timer": "timer of the check",
}


class AddressKind:
    """One kind of addresses. Its methods are those of a knob's row, and take addresses without their prefix."""

    def __init__(
        self,
        describe: Callable[[str], Words],
        *,
        layer: str,
        role: str = "",
        title: str = "",
        modules: Sequence[str] = (),
        lasting: Sequence[str] = (),
        opaque: Sequence[str] = (),
        texts: Sequence[str] = (),
        has_run_state: bool = False,
        each_its_own_value: bool = False,
        undo_hint: str = "",
    ) -> None:
        """Set ``layer``, the layer of the drift report, and ``role``, the layer of site.yml.

        ``modules`` are the modules that set these settings. ``lasting``, ``opaque`` and ``texts`` are beginnings of
        addresses: of settings that outlive a boot, of values that are digests or JSON, and of values that are whole
        texts. ``has_run_state`` means that an address that ends in /active is about a running unit. ``title`` names all
        settings of the kind together. ``undo_hint`` says why an undo of single layers cannot undo this layer.
        ``each_its_own_value`` is as for a knob.
        """
        self.describe_setting = describe
        self.layer = layer
        self.role = role
        self.title = title
        self.modules = modules
        self.lasting = tuple(lasting)
        self.each_its_own_value = each_its_own_value
        self.undo_hint = undo_hint
        self._opaque = tuple(opaque)
        self._texts = tuple(texts)
        self._has_run_state = has_run_state

    def outlives_boot(self, address_rest: str) -> bool:
        """Return whether a setting outlives a boot, by its address without the prefix."""
        return address_rest.startswith(self.lasting) and not (self._has_run_state and address_rest.endswith("/active"))

    def has_opaque_value(self, address_rest: str) -> bool:
        return address_rest.startswith(self._opaque)

    def has_text_value(self, address_rest: str) -> bool:
        """Return whether the value is the whole text of a file."""
        return address_rest.startswith(self._texts)


def find_address_kind(address: str) -> AddressKind | None:
    """Return the kind of an address, None for an address of a knob and for an unknown one."""
    return KINDS.get(address.partition(":")[0])


def has_opaque_value(address: str) -> bool:
    """Return whether the value of an address is a digest or JSON, which people cannot read."""
    kind = find_address_kind(address)
    return kind is not None and address != INTENT and kind.has_opaque_value(address.partition(":")[2])


def describe_address(address: str) -> Words:
    """Return the noun for a setting, the unit of its place and its place; for an unknown setting, its address."""
    kind = find_address_kind(address)
    return kind.describe_setting(address.partition(":")[2]) if kind else (address, "", None)


def format_places(unit: str, places: Iterable[Place]) -> str:
    """Return places as text: numbers as 0-3,8; names as they are, or only their count if they have a unit."""
    places = list(dict.fromkeys(places))
    if unit and any(isinstance(place, str) for place in places):
        return f"{len(places)} {format_plural(unit, len(places))}"
    numbers = [place for place in places if isinstance(place, int)]
    if len(numbers) < len(places) or not places:
        return ", ".join(str(place) for place in places)
    return f"{format_plural(unit, len(numbers))} {format_cpulist(numbers)}"


def format_plural(unit: str, number: int) -> str:
    """Return a noun in the singular for the number 1, else in the plural: "policy", "policies"."""
    if number == 1:
        return unit
    return f"{unit[:-1]}ies" if unit.endswith("cy") else f"{unit}s"


def _describe_host_tool_part(address_rest: str) -> Words:
    name, dummy, kind = address_rest.rpartition("/")
    if name in UNITS:
        return UNITS[name] if kind == "enabled" else f"run of the {UNITS[name]}", "", name
    return "engine on the host", "file", address_rest


def _describe_kernel_module(address_rest: str) -> Words:
    if address_rest.startswith("/"):
        return "kernel modules to load at boot", "", address_rest
    return f"kernel module {address_rest.rpartition('/')[2]}", "", None


def _describe_instance_part(address_rest: str) -> Words:
    folder, dummy, last = address_rest.rpartition("/")
    unit = next((word for word in (*folder.split("/"), last) if word.startswith("llama-")), "")
    name = f"instance {unit[len('llama-') :].partition('.service')[0]}" if unit else "the RPC worker"
    if not address_rest.startswith("/"):
        return UNIT_PROPERTIES[last].format(name), "", None
    return (f"unit of {name}" if last.endswith(".service") else f"drop-in {last} of {name}"), "", None


#: The last part of the address of an instance's unit -> the noun for the setting.
UNIT_PROPERTIES = {
    "active": "run of {}",
    "drop-ins": "drop-ins of {}",
    "enabled": "{}",
    "file": "unit of {}",
    "loaded": "files of {}",
}
#: The rows by the prefix of their addresses.
KINDS = {
    "bios": AddressKind(
        lambda rest: (f"BIOS setting {rest}", "", None),
        layer=BIOS,
        role="bios",
        modules=("epyc_bmc_bios",),
        undo_hint="BIOS settings are put back through the BMC, with epyc_bios_state=original.",
    ),
    "desired": AddressKind(
        lambda rest: ("stored intent", "", None) if rest == "intent" else ("stored request", "", rest),
        layer=BOOT,
        title="stored requests",
        lasting=("",),
        opaque=("",),
        each_its_own_value=True,
    ),
    "host_tool": AddressKind(
        _describe_host_tool_part,
        layer=BOOT,
        role="base",
        modules=("epyc_host_tool",),
        lasting=("",),
        opaque=("/",),
        has_run_state=True,
        each_its_own_value=True,
        undo_hint="The command and the services of base undo the other layers: they are removed with everything.",
    ),
    "ledger": AddressKind(
        lambda rest: ("record of what was there before", "", None), layer=BOOT, each_its_own_value=True
    ),
    "llama": AddressKind(
        _describe_instance_part,
        layer=LLAMA,
        role="llama",
        modules=("llama_server", "vllm_server", "llama_rpc_worker"),
        lasting=("",),
        texts=("/",),
        has_run_state=True,
        undo_hint="Instances are removed by restore.yml from a controller, with -e epyc_restore_instances=true.",
    ),
    "plan": AddressKind(lambda rest: (f"CPUs of the role {rest}", "", None), layer=SYSFS),
    "prerequisites": AddressKind(
        _describe_kernel_module,
        layer=OTHER,
        role="prerequisites",
        lasting=("/",),
        opaque=("/",),
        undo_hint="Packages of prerequisites stay, and its list of kernel modules to load is removed with everything.",
    ),
}
