# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's cpufreq policies and their files, and frequencies in the notation of people.

Sources: Documentation/admin-guide/pm/cpufreq.rst and amd-pstate.rst of the Linux kernel, drivers/cpufreq/cpufreq.c and
acpi-cpufreq.c.
"""

from __future__ import annotations

import errno

from ..._errors import Absent, BadRequest, Refused
from ..._notation.cpulist import format_cpulist
from ..msr.registers import CPB_DIS, HWCR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._io.kernelfs import KernelFS

HOME = "/sys/devices/system/cpu/cpufreq"
GLOBAL_BOOST = f"{HOME}/boost"
PSTATE_STATUS = "/sys/devices/system/cpu/amd_pstate/status"
#: The switch of Linux 7.1 and 7.2 with which amd-pstate chooses the energy preference of all CPUs by itself. Later
#: kernels have the preference DYNAMIC of each policy instead.
DYNAMIC_EPP = "/sys/devices/system/cpu/amd_pstate/dynamic_epp"
DYNAMIC = "dynamic"

GOVERNOR, EPP = "scaling_governor", "energy_performance_preference"
#: The frequency below which the hardware throttles a CPU only after all others are at their floors, and the number of
#: different floors of a machine, 0 for any number.
FLOOR, FLOOR_COUNT = "amd_pstate_floor_freq", "amd_pstate_floor_count"
MIN, MAX, SPEED, BOOST = "scaling_min_freq", "scaling_max_freq", "scaling_setspeed", "boost"

#: Names for frequencies that differ from SKU to SKU.
LOWEST, BASE, HIGHEST = "lowest", "base", "highest"
UNITS = {"khz": 0, "mhz": 3, "ghz": 6}
#: The smallest frequency that is accepted: a smaller number without a unit is probably a number of MHz.
SMALLEST_KHZ = 100_000


class Policy:
    """One policy: CPUs that change their frequency together, and the values that its files show."""

    def __init__(self, name: str, cpus: tuple[int, ...]) -> None:
        self.name = name
        self.cpus = cpus
        self.driver = ""
        self.governors: tuple[str, ...] = ()
        self.governor: str | None = None
        #: P-states in kHz, the fastest first; the fastest is the base frequency. Empty where the driver has no table.
        self.states: tuple[int, ...] = ()
        self.lowest = 0
        self.highest = 0
        self.base: int | None = None
        self.min = 0
        self.max = 0
        self.speed: str | None = None
        self.firmware_limit: int | None = None
        self.preference: str | None = None
        self.preferences: tuple[str, ...] = ()
        #: True where amd-pstate chooses the preference of all policies, and the kernel refuses another one.
        self.preference_is_locked = False
        #: The floor in kHz, and the number of different floors of the machine; None without the feature.
        self.floor: int | None = None
        self.floor_count: int | None = None
        #: Whether boost can be switched for this policy alone, and its state as of read_boost.
        self.own_boost = False
        self.boost: str | None = None

    def __str__(self) -> str:
        return f"{self.name} (CPUs {format_cpulist(self.cpus)})"


def list_policies(fs: KernelFS) -> list[str]:
    names = [name for name in fs.list_names(HOME) if name.startswith("policy") and name[6:].isdecimal()]
    return sorted(names, key=lambda name: int(name[6:]))


def read_policy_file(fs: KernelFS, policy: str, file: str) -> str | None:
    """Return the content of a policy's file; None for a missing file, and for a policy without online CPUs."""
    try:
        text = fs.read_if_present(f"{HOME}/{policy}/{file}")
    except Refused as error:
        if error.errno == errno.EBUSY:
            return None
        raise
    if file == EPP and text and text.startswith(f"{DYNAMIC}("):
        return DYNAMIC  # The kernel shows the preference of the moment in parentheses, and takes the word alone.
    return None if text is None or text == "<unsupported>" else text.strip()


def read_online_cpus(fs: KernelFS, policy: str) -> tuple[int, ...]:
    """Return the online CPUs of a policy."""
    return tuple(int(word) for word in (read_policy_file(fs, policy, "affected_cpus") or "").split())


def read_boost(fs: KernelFS, policy: str, cpus: tuple[int, ...]) -> str | None:
    """Return "1" if boost is on for these CPUs of a policy, "0" if it is off, "mixed", and None if it is unknown.

    The files of acpi-cpufreq do not show it: ``cpb`` shows the switch of the whole machine, and ``boost`` the last
    value written to this file. Both files change a register, which is read here.
    """
    if read_policy_file(fs, policy, "cpb") is not None:
        try:
            words = [fs.read_words(f"/dev/cpu/{cpu}/msr", [HWCR])[0] for cpu in cpus]
        except (Absent, Refused):
            words = []
        states = {"0" if word >> CPB_DIS & 1 else "1" for word in words}
        if states:
            return states.pop() if len(states) == 1 else "mixed"
    return read_policy_file(fs, policy, BOOST)


def unreadable_boost_reason(fs: KernelFS, policy: str, cpus: tuple[int, ...]) -> str:
    """Return why the boost of a policy cannot be read; an empty text if it can, or if the policy has none of its own.

    Kernels without the file ``boost`` have the file ``cpb``, which does not show the boost of a policy.
    """
    if read_policy_file(fs, policy, "cpb") is None or read_boost(fs, policy, cpus) is not None:
        return ""
    device = f"/dev/cpu/{cpus[0]}/msr" if cpus else ""
    if not device or fs.read_status(device) is None:
        return "the kernel module msr is not loaded (modprobe msr), through which boost is read on this kernel"
    return f"{device} cannot be read, through which boost is seen on this kernel"


def read_policy(fs: KernelFS, name: str) -> Policy:
    policy = Policy(name, read_online_cpus(fs, name))
    policy.driver = read_policy_file(fs, name, "scaling_driver") or ""
    policy.governors = tuple((read_policy_file(fs, name, "scaling_available_governors") or "").split())
    policy.governor = read_policy_file(fs, name, GOVERNOR)
    states = (read_policy_file(fs, name, "scaling_available_frequencies") or "").split()
    policy.states = tuple(sorted((int(word) for word in states), reverse=True))
    policy.lowest = read_policy_number(fs, name, "cpuinfo_min_freq") or 0
    policy.highest = read_policy_number(fs, name, "cpuinfo_max_freq") or 0
    if policy.driver == "acpi-cpufreq" and policy.states:
        policy.base = policy.states[0]
    elif policy.cpus:
        nominal = fs.read_if_present(f"/sys/devices/system/cpu/cpu{policy.cpus[0]}/acpi_cppc/nominal_freq") or ""
        policy.base = int(nominal) * 1000 if nominal.isdecimal() and int(nominal) else None
    policy.min = read_policy_number(fs, name, MIN) or 0
    policy.max = read_policy_number(fs, name, MAX) or 0
    policy.speed = read_policy_file(fs, name, SPEED)
    policy.firmware_limit = read_policy_number(fs, name, "bios_limit")
    policy.preference = read_policy_file(fs, name, EPP)
    policy.preferences = tuple((read_policy_file(fs, name, "energy_performance_available_preferences") or "").split())
    policy.preference_is_locked = fs.read_if_present(DYNAMIC_EPP) == "enabled"
    policy.floor, policy.floor_count = (read_policy_number(fs, name, file) for file in (FLOOR, FLOOR_COUNT))
    policy.own_boost = any(read_policy_file(fs, name, file) is not None for file in (BOOST, "cpb"))
    policy.boost = read_boost(fs, name, policy.cpus)
    # While boost is off, amd-pstate shows the base as the highest frequency, but this file the highest with boost.
    policy.highest = max(policy.highest, read_policy_number(fs, name, "amd_pstate_max_freq") or 0)
    return policy


def read_policy_number(fs: KernelFS, policy: str, file: str) -> int | None:
    """Return the whole number in a policy's file; None for another content."""
    text = read_policy_file(fs, policy, file) or ""
    return int(text) if text.isdecimal() else None


def parse_frequency(raw: object, option: str) -> int | str:
    """Return a frequency in kHz, or one of the names lowest, base and highest."""
    text = str(raw).strip().lower()
    if text in (LOWEST, BASE, HIGHEST):
        return text
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    whole, point, part = text[: len(text) - len(unit)].strip().partition(".")
    power = UNITS.get(unit, 0)
    # Digits instead of floats, because a float of 2.25 GHz could become 2249999 kHz.
    if whole.isdecimal() and whole.isascii() and len(whole) <= 9 and (not point or (part.isdecimal() and unit)):
        digits = part.rstrip("0") if part.isascii() else "x" * 9
        khz = int(whole) * 10**power + int((digits or "0").ljust(power, "0")) if len(digits) <= power else 0
        if SMALLEST_KHZ <= khz < 10**8:
            return khz
    raise BadRequest(
        f"{option}: '{raw}' is no frequency; say it with a unit, as 2250MHz or 2.25GHz, as a whole number of kHz, or "
        f"as {LOWEST}, {BASE} or {HIGHEST}."
    )


def format_frequency(khz: int) -> str:
    """Return a frequency in MHz as text."""
    return f"{khz // 1000} MHz" if khz % 1000 == 0 else f"{khz / 1000:.3f} MHz"
