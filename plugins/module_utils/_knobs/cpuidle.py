# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob for idle states: the deepest idle state that each CPU may enter.

Address: ``cpuidle:cpu3/C2``, with the name of the state. A value is the content of the state's file ``disable``: 1 for
a forbidden state, else 0. Every state deeper than the requested one is forbidden, because a governor may still choose a
state beyond a single forbidden one. Source: Documentation/admin-guide/pm/cpuidle.rst and
Documentation/ABI/testing/sysfs-devices-system-cpu of Linux, drivers/cpuidle/sysfs.c and drivers/acpi/processor_idle.c.
"""

from __future__ import annotations

from .._errors import Absent, BadRequest, Refused, Unsupported
from .._notation import cmdline
from .._notation.cpulist import format_cpulist
from . import competing_programs
from .protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .._io.kernelfs import KernelFS
    from .protocol.knob import Change, Settings, Words

CPUS = "/sys/devices/system/cpu"
#: The file with the lowest limit in µs that a program holds for all CPUs, and its content without such a program.
DMA_LATENCY, NO_LIMIT = "/dev/cpu_dma_latency", 2000 * 10**6
#: Boot parameters that switch idle states off, and the beginning of the one that leaves out deeper states.
WITHOUT_STATES = ("idle=poll", "idle=halt", "cpuidle.off=1")
MAX_CSTATE = "processor.max_cstate="


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    return [CpuIdle(host, options.get("settings") or [])]


def describe_setting(address_rest: str) -> Words:
    cpu, dummy, name = address_rest.partition("/")
    return f"idle state {name}", "CPU", int(cpu[len("cpu") :])


def format_value(address_rest: str, text: str) -> str:
    return {"0": "allowed", "1": "forbidden"}.get(text, text)


class IdleState:
    """An idle state of one CPU, with its exit latency in µs."""

    def __init__(self, path: str, name: str, latency: int) -> None:
        self.path = path
        self.name = name
        self.latency = latency


def read_idle_states(fs: KernelFS, cpu: int) -> list[IdleState]:
    """Return the idle states of a CPU, the shallowest first; a second state with a name is called by its folder."""
    home = f"{CPUS}/cpu{cpu}/cpuidle"
    folders = [folder for folder in fs.list_names(home) if folder.startswith("state") and folder[5:].isdecimal()]
    states: list[IdleState] = []
    for folder in sorted(folders, key=lambda folder: int(folder[5:])):
        name = (fs.read_if_present(f"{home}/{folder}/name") or "").strip()
        latency = (fs.read_if_present(f"{home}/{folder}/latency") or "0").strip()
        taken = any(state.name == name for state in states)
        name = folder if taken or not name or "/" in name else name
        states.append(IdleState(f"{home}/{folder}", name, int(latency)))
    return states


class CpuIdle(Knob):
    prefix = "cpuidle"

    def __init__(self, host: Host, settings: Sequence[Mapping[str, Any]]) -> None:
        self.host = host
        self.fs = host.fs
        self.settings = settings
        self._states: dict[int, list[IdleState]] = {}
        self._remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return a setting for each idle state of the requested CPUs: deeper ones than requested are forbidden."""
        wanted: Settings = {}
        limits: dict[int, str] = {}
        deepest: dict[int, IdleState] = {}
        for setting in self.settings:
            limit = _format_requested_idle_limit(setting)
            cpus = self.host.parse_cpus(str(setting["cpus"]))
            self._refuse_cpus_without_idle_states(cpus)
            for cpu in cpus:
                if limits.setdefault(cpu, limit) != limit:
                    raise BadRequest(
                        f"CPU {cpu} is asked for two limits: {limits[cpu]}, and {limit}. Let the sets of CPUs not "
                        "overlap."
                    )
                count = self._count_allowed_states(cpu, setting)
                states = self._states_of_cpu(cpu)
                wanted.update((f"cpuidle:cpu{cpu}/{s.name}", "0" if i < count else "1") for i, s in enumerate(states))
                deepest[cpu] = states[count - 1]
        self._remarks = self._polling_and_limit_remarks(deepest) if deepest else []
        return wanted

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        return {address: self._read_disable_file(address) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write the allowed states first, so that every CPU has an allowed state at any time."""
        for change in sorted(changes, key=lambda change: change.after or ""):
            state = self._find_state(change.address)
            if state is not None and change.after is not None:
                self.fs.write(f"{state.path}/disable", change.after)

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if a CPU lacks the idle state, as after a change of the driver; else None."""
        if self._read_disable_file(address) is not None:
            return None
        cpu, name = _split_address(address)
        return f"CPU {cpu} has no idle state {name} now; the cpuidle driver is {self._read_driver() or 'absent'}"

    def module_facts(self) -> dict[str, object]:
        """Return the driver of idle states, and the governor that chooses among them."""
        governor = self.fs.read_if_present(f"{CPUS}/cpuidle/current_governor")
        return {
            "driver": self._read_driver(),
            "governor": governor or self.fs.read_if_present(f"{CPUS}/cpuidle/current_governor_ro"),
        }

    def _states_of_cpu(self, cpu: int) -> list[IdleState]:
        if cpu not in self._states:
            self._states[cpu] = read_idle_states(self.fs, cpu)
        return self._states[cpu]

    def _find_state(self, address: str) -> IdleState | None:
        cpu, name = _split_address(address)
        return next((state for state in self._states_of_cpu(cpu) if state.name == name), None)

    def _read_disable_file(self, address: str) -> str | None:
        state = self._find_state(address)
        return self.fs.read_if_present(f"{state.path}/disable") if state is not None else None

    def _read_driver(self) -> str | None:
        return self.fs.read_if_present(f"{CPUS}/cpuidle/current_driver")

    def _find_boot_parameters(self, *parameters: str) -> list[str]:
        words = cmdline.split_kernel_command_line(self.fs.read_if_present("/proc/cmdline") or "")
        return [word for word in words if word.startswith(parameters)]

    def _count_allowed_states(self, cpu: int, setting: Mapping[str, Any]) -> int:
        """Return the number of allowed states of a CPU, counted from the shallowest."""
        states, limit = self._states_of_cpu(cpu), setting.get("max_latency")
        names = [state.name for state in states]
        if limit is None:
            if setting["deepest"] in names:
                return names.index(setting["deepest"]) + 1
            parameters = self._find_boot_parameters(MAX_CSTATE)
            cause = (
                f" The kernel was started with {parameters[-1]}, which leaves out deeper ones." if parameters else ""
            )
            raise BadRequest(
                f"CPU {cpu} has no idle state {setting['deepest']}, only {_format_states(states)}.{cause} Say one of "
                "these, or max_latency."
            )
        count = next((i for i, state in enumerate(states) if state.latency > limit), len(states))
        if not count:
            raise BadRequest(
                f"A limit of {limit} µs forbids every idle state of CPU {cpu}, which has {_format_states(states)}. The "
                f"shallowest must stay: say max_latency={states[0].latency} at least, or deepest={names[0]}."
            )
        return count

    def _refuse_cpus_without_idle_states(self, cpus: Sequence[int]) -> None:
        without = [cpu for cpu in cpus if not self._states_of_cpu(cpu)]
        if not without:
            return
        reason = (
            "no cpuidle driver is bound. Enable global C-state control in the BIOS; a virtual machine often has none. "
            "Leave cpuidle out of epyc_steps here"
        )
        parameters = self._find_boot_parameters(*WITHOUT_STATES)
        if parameters:
            reason = (
                f"the kernel was started with {' '.join(parameters)}. Remove that by kernel_cmdline (absent) and reboot"
            )
        raise Unsupported(f"There are no idle states of {_format_cpus(without)} in {CPUS}/cpu*/cpuidle: {reason}.")

    def _polling_and_limit_remarks(self, deepest: Mapping[int, IdleState]) -> list[str]:
        polling = [cpu for cpu, state in deepest.items() if not state.latency and len(self._states_of_cpu(cpu)) > 1]
        remarks = []
        if polling:
            remarks.append(
                f"Instead of sleeping, {_format_cpus(polling)} will poll: that draws power as if they computed, takes "
                "power from the boost of other CPUs, and slows the other thread of each core."
            )
        remarks += self._stricter_limit_remarks(deepest)
        return remarks + competing_programs.running_tuned_remarks(
            self.fs, "limits on idle states (force_latency, pm_qos_resume_latency_us)"
        )

    def _stricter_limit_remarks(self, deepest: Mapping[int, IdleState]) -> list[str]:
        """Return a remark on each program that forbids CPUs a state that is allowed here."""
        by_limit: dict[int, list[int]] = {}
        for cpu, state in deepest.items():
            text = (self.fs.read_if_present(f"{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us") or "0").strip()
            limit = 0 if text == "n/a" else int(text) or NO_LIMIT  # n/a allows no latency, 0 any latency.
            if limit < state.latency:
                by_limit.setdefault(limit, []).append(cpu)
        remarks = [
            f"PM QoS lets {_format_cpus(cpus)} enter no idle state of more than {limit} µs, which is stricter than "
            "asked for here. Another program wrote that to their power/pm_qos_resume_latency_us; a 0 there lifts it."
            for limit, cpus in by_limit.items()
        ]
        try:
            everywhere = int.from_bytes(self.fs.read_at(DMA_LATENCY, 0, 4), "little")
        except (Absent, Refused):  # in a container, or without root
            return remarks
        if everywhere < max(state.latency for state in deepest.values()):
            remarks.append(
                f"A program holds {DMA_LATENCY} and lets no CPU enter an idle state of more than {everywhere} µs, "
                f"which is stricter than asked for here. 'fuser -v {DMA_LATENCY}' names the programs that have it open."
            )
        return remarks


def _split_address(address: str) -> tuple[int, str]:
    cpu, dummy, name = address[len("cpuidle:cpu") :].partition("/")
    return int(cpu), name


def _format_requested_idle_limit(setting: Mapping[str, Any]) -> str:
    """Return the limit of an entry as the user wrote it; BadRequest if the entry has none or two."""
    limits = [f"{key}={setting[key]}" for key in ("deepest", "max_latency") if setting.get(key) is not None]
    if len(limits) != 1:
        raise BadRequest(f"The entry for cpus '{setting['cpus']}' must say either deepest or max_latency.")
    return limits[0]


def _format_cpus(cpus: Sequence[int]) -> str:
    return f"{'CPUs' if len(cpus) > 1 else 'CPU'} {format_cpulist(cpus)}"


def _format_states(states: Sequence[IdleState]) -> str:
    return ", ".join(f"{state.name} ({state.latency} µs)" for state in states)
