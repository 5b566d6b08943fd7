# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob for governors, frequency limits, fixed speeds, boost and energy preference of each cpufreq policy.

Addresses: ``cpufreq:boost``, ``cpufreq:policy0/scaling_governor``, ``cpufreq:policy0/boost`` and so on, by the kernel's
file names; frequencies are in kHz. The boost of a policy is one address, whether the kernel's file is boost or cpb.
"""

from __future__ import annotations

import time

from ..._errors import BadRequest
from ..._notation.cpulist import format_cpulist
from .. import competing_programs
from ..protocol.knob import Knob
from . import policy as cpufreq_policy
from . import rules
from .policy import BOOST, EPP, FLOOR, GOVERNOR, HOME, MAX, MIN, SPEED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings, Words
    from .policy import Policy

MACHINE_BOOST = "cpufreq:boost"
KEYS = ("governor", "min", "max", "speed", "boost", "epp", "floor")
FREQUENCIES = ("min", "max", "speed", "floor")
#: Frequencies that differ by less than this fraction are equal, because the kernel rounds kHz to performance levels.
TOLERANCE = 1000
#: Seconds that new limits may take to show on a busy host, and seconds between two reads of the files.
PATIENCE, INTERVAL = 5.0, 0.01

TITLES = {
    BOOST: "boost",
    GOVERNOR: "governor",
    MIN: "lowest frequency",
    MAX: "highest frequency",
    SPEED: "fixed frequency",
    EPP: "energy preference",
    FLOOR: "lowest frequency of early throttling",
}


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    return [CpuFreq(host, options.get("settings") or [])]


def describe_setting(address_rest: str) -> Words:
    policy, file = split_address(f"cpufreq:{address_rest}")
    what = TITLES.get(file, file)
    return (what, "policy", int(policy[len("policy") :])) if policy else (f"{what} of the machine", "", None)


def format_value(address_rest: str, text: str) -> str:
    """Return a frequency in GHz, any other value as it is."""
    if address_rest.endswith(("_freq", "scaling_setspeed")) and text.isdecimal():
        return f"{int(text) / 1e6:g} GHz"
    return text


def split_address(address: str) -> tuple[str, str]:
    """Return the policy and the file of an address; an empty policy for the switch of the whole machine."""
    policy, dummy, file = address[len("cpufreq:") :].rpartition("/")
    return policy, file


class RequestedValue:
    """One value that an entry requests; ``source`` is the text of the entry for messages."""

    def __init__(self, value: Any, source: str) -> None:
        self.value = value
        self.source = source


class CpuFreq(Knob):
    """All cpufreq policies of a host."""

    prefix = "cpufreq"

    def __init__(self, host: Host, settings: Sequence[Mapping[str, Any]]) -> None:
        self.host = host
        self.fs = host.fs
        self.settings = settings
        self._remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return the wanted files of policies, refusing values that driver and kernel cannot express."""
        self._remarks = []
        if not self.settings:
            return {}
        by_cpu = self._requested_values_by_cpu()
        self._refuse_limits_by_false_frequencies(by_cpu.values())
        by_policy = self._requested_values_by_policy(by_cpu)
        policies = [cpufreq_policy.read_policy(self.fs, name) for name in by_policy]
        wanted: Settings = {}
        for policy in policies:
            files = rules.plan_policy_files(policy, by_policy[policy.name], self._remarks)
            wanted.update({f"cpufreq:{policy.name}/{file}": text for file, text in files.items()})
        wanted.update(self._wanted_boost_settings(policies, by_policy))
        floors = {split_address(name)[0]: int(text or 0) for name, text in wanted.items() if name.endswith(f"/{FLOOR}")}
        if floors:
            rules.refuse_too_many_floors(self._all_policies(policies), floors)
        self._remarks = list(dict.fromkeys(self._remarks))
        self._remarks += competing_programs.running_tuned_remarks(self.fs, "governors and frequencies")
        self._remarks += competing_programs.running_power_profiles_remarks(self.fs)
        return wanted

    def _refuse_limits_by_false_frequencies(self, requests: Iterable[Mapping[str, RequestedValue]]) -> None:
        """Refuse limits and speeds where the firmware or the driver shows frequencies that cannot be true."""
        fault = self.host.topology.frequency_fault
        if fault and any(requested.keys() & set(FREQUENCIES) for requested in requests):
            raise BadRequest(f"{fault} Until then min, max and speed mean nothing here, and nothing was changed.")
        if fault:
            self._remarks.append(fault)

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the contents of the files; None for a missing file, and for a policy without online CPUs."""
        return {address: self._read_file(*split_address(address)) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write boost first because it moves the limits, then governors, preferences and limits, and speeds last."""
        by_policy: dict[str, dict[str, Change]] = {}
        for change in changes:
            policy, file = split_address(change.address)
            by_policy.setdefault(policy, {})[file] = change
        boosts = {policy: files[BOOST].after for policy, files in by_policy.items() if policy and BOOST in files}
        machine = by_policy.pop("", {}).get(BOOST)
        if machine is not None and machine.after is not None:
            # The switch of the machine turns on every policy, so policies that were off are turned off again.
            off = [name for name in cpufreq_policy.list_policies(self.fs) if self._read_file(name, BOOST) == "0"]
            self.fs.write(cpufreq_policy.GLOBAL_BOOST, machine.after)
            boosts = {**dict.fromkeys(off, "0"), **boosts}
        for policy, after in boosts.items():
            self._write_boost(policy, after)
        for file in (GOVERNOR, EPP):
            for policy, files in by_policy.items():
                self._write_file(policy, file, files.get(file))
        written: list[Change] = []
        try:
            for policy, files in by_policy.items():
                for change in self._order_limits(policy, files):
                    self._write_file(*split_address(change.address), change)
                    written.append(change)
                self._write_file(policy, SPEED, files.get(SPEED))
                self._write_file(policy, FLOOR, files.get(FLOOR))
        finally:
            self._wait_for_limits(written)

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal; frequencies may differ by less than a thousandth."""
        if (
            split_address(address)[1] in (MIN, MAX, SPEED, FLOOR)
            and wanted
            and found
            and wanted.isdecimal()
            and found.isdecimal()
        ):
            return abs(int(wanted) - int(found)) * TOLERANCE < int(wanted)
        return wanted == found

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if a policy does not exist or has no online CPU, or if boost is unreadable; else None."""
        policy, file = split_address(address)
        if not policy:
            return None
        if not self.fs.is_dir(f"{HOME}/{policy}"):
            return f"there is no {policy} any more; the cpufreq driver was changed or unloaded"
        cpus = cpufreq_policy.read_online_cpus(self.fs, policy)
        if not cpus:
            return f"the CPUs of {policy} are offline"
        return (cpufreq_policy.unreadable_boost_reason(self.fs, policy, cpus) if file == BOOST else "") or None

    def module_facts(self) -> dict[str, object]:
        return {
            "driver": self.host.topology.cpufreq_driver,
            "amd_pstate": self.fs.read_if_present(cpufreq_policy.PSTATE_STATUS),
        }

    def _requested_values_by_cpu(self) -> dict[int, dict[str, RequestedValue]]:
        requested: dict[int, dict[str, RequestedValue]] = {}
        for setting in self.settings:
            values = {key: setting[key] for key in KEYS if setting.get(key) is not None}
            text = str(setting["cpus"])
            if not values:
                raise BadRequest(f"The entry for cpus '{text}' asks for nothing; say one of {', '.join(KEYS)}.")
            for key, value in values.items():
                if key in FREQUENCIES:
                    value = cpufreq_policy.parse_frequency(value, key)
                item = RequestedValue(value, f"{key}={values[key]} for {text}")
                for cpu in self.host.parse_cpus(text):
                    other = requested.setdefault(cpu, {}).setdefault(key, item)
                    if other.value != value:
                        raise BadRequest(
                            f"CPU {cpu} is asked for two values: {other.source}, and {item.source}. Let the sets of "
                            "CPUs not overlap."
                        )
        return requested

    def _requested_values_by_policy(
        self, requested: Mapping[int, Mapping[str, RequestedValue]]
    ) -> dict[str, dict[str, Any]]:
        """Return the requested values of each policy, refusing a policy whose CPUs have different requests."""
        by_policy: dict[str, dict[str, Any]] = {}
        left = set(requested)
        for name in cpufreq_policy.list_policies(self.fs):
            cpus = cpufreq_policy.read_online_cpus(self.fs, name)
            if left.isdisjoint(cpus):
                continue
            left.difference_update(cpus)
            values = requested[next(cpu for cpu in cpus if cpu in requested)]
            for cpu in cpus:
                _refuse_differing_values_in_policy(name, cpus, cpu, values, requested.get(cpu, {}))
            by_policy[name] = {key: item.value for key, item in values.items()}
        if left:
            raise BadRequest(self._missing_policy_message(left))
        return by_policy

    def _missing_policy_message(self, cpus: Iterable[int]) -> str:
        fault = self.host.topology.frequency_fault
        if fault:
            return f"CPUs {format_cpulist(cpus)} have no cpufreq policy in {HOME}. {fault}"
        reason = "no cpufreq driver is bound to them"
        if self.fs.read_if_present(cpufreq_policy.PSTATE_STATUS) == "disable":
            reason = f"amd-pstate is switched off; write 'active' to {cpufreq_policy.PSTATE_STATUS}"
        return (
            f"CPUs {format_cpulist(cpus)} have no cpufreq policy in {HOME}: {reason}. Enable P-states and CPPC in the "
            "BIOS; a virtual machine usually has none, because the frequency belongs to its host."
        )

    def _wanted_boost_settings(
        self, policies: Sequence[Policy], by_policy: Mapping[str, Mapping[str, Any]]
    ) -> Settings:
        boosts = {name: values["boost"] for name, values in by_policy.items() if "boost" in values}
        if not boosts:
            return {}
        machine = self.fs.read_if_present(cpufreq_policy.GLOBAL_BOOST)
        # Check mode loads no kernel module; in a run, the role epyc_prerequisites has loaded the module msr before.
        reasons = (cpufreq_policy.unreadable_boost_reason(self.fs, policy.name, policy.cpus) for policy in policies)
        hidden = next(filter(None, reasons), "") if self.fs.read_only else ""
        wanted = rules.plan_boost(self._all_policies(policies), boosts, machine, bool(hidden))
        if hidden and wanted.keys() != {BOOST}:
            self._remarks.append(
                f"What boost the CPUs have is not known yet: {hidden}. The role epyc_prerequisites loads it."
            )
        return {MACHINE_BOOST if name == BOOST else f"cpufreq:{name}/{BOOST}": text for name, text in wanted.items()}

    def _all_policies(self, policies: Sequence[Policy]) -> list[Policy]:
        """Return these policies and all others that have online CPUs."""
        known = {policy.name for policy in policies}
        others = [name for name in cpufreq_policy.list_policies(self.fs) if name not in known]
        online = [name for name in others if cpufreq_policy.read_online_cpus(self.fs, name)]
        return [*policies, *(cpufreq_policy.read_policy(self.fs, name) for name in online)]

    def _read_file(self, policy: str, file: str) -> str | None:
        if not policy:
            return self.fs.read_if_present(cpufreq_policy.GLOBAL_BOOST)
        if file == BOOST:
            return cpufreq_policy.read_boost(self.fs, policy, cpufreq_policy.read_online_cpus(self.fs, policy))
        return cpufreq_policy.read_policy_file(self.fs, policy, file)

    def _write_file(self, policy: str, file: str, change: Change | None) -> None:
        # The wanted value None is a speed under a governor without speeds, which removes the speed by itself.
        if change is not None and change.after is not None:
            self.fs.write(f"{HOME}/{policy}/{file}", change.after)

    def _order_limits(self, policy: str, files: Mapping[str, Change]) -> list[Change]:
        """Return the limits in an order in which min never exceeds max: max first upwards, min first downwards."""
        present = cpufreq_policy.read_policy_number(self.fs, policy, MAX)
        high = files.get(MAX)
        upwards = high is None or high.after is None or present is None or int(high.after) >= present
        return [files[file] for file in ((MAX, MIN) if upwards else (MIN, MAX)) if file in files]

    def _wait_for_limits(self, limits: Sequence[Change]) -> None:
        """Wait until files show the new limits, which the kernel applies in a work queue after the write returned.

        A rollback after a failed write waits too, because it reads the files to find what to restore. A limit that the
        kernel clamps never shows, which the read-back reports.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and any(
            not self.values_equal(change.address, change.after, self._read_file(*split_address(change.address)))
            for change in limits
        ):
            time.sleep(INTERVAL)

    def _write_boost(self, policy: str, after: str | None) -> None:
        """Write each boost file that exists until boost is as wanted.

        The kernel ignores a write to ``boost`` of the value that this file shows, even if ``cpb`` was written since. It
        refuses a write to both files if the switch of the whole machine, which is written before, has made the change
        already.
        """
        for file in (BOOST, "cpb"):
            exists = cpufreq_policy.read_policy_file(self.fs, policy, file) is not None
            if exists and after is not None and self._read_file(policy, BOOST) != after:
                self.fs.write(f"{HOME}/{policy}/{file}", after)


def _refuse_differing_values_in_policy(
    name: str, cpus: Sequence[int], cpu: int, first: Mapping[str, RequestedValue], other: Mapping[str, RequestedValue]
) -> None:
    """Raise BadRequest if a CPU of a policy has other requested values than the first CPU."""
    for key in KEYS:
        items = [first.get(key), other.get(key)]
        values = [item and item.value for item in items]
        if values[0] != values[1]:
            sources = [item.source for item in items if item is not None]
            raise BadRequest(
                f"CPUs {format_cpulist(cpus)} change their frequency together ({name}), but CPU {cpu} is asked for "
                f"another {key} than the rest: {' against '.join(sources)}{'' if all(items) else ' against nothing'}. "
                "Ask the same of all of them."
            )
