# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's cpufreq policies, read, and frequencies as people write them.

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

GOVERNOR, EPP = "scaling_governor", "energy_performance_preference"
MIN, MAX, SPEED, BOOST = "scaling_min_freq", "scaling_max_freq", "scaling_setspeed", "boost"

#: Names for frequencies that differ from SKU to SKU.
LOWEST, BASE, HIGHEST = "lowest", "base", "highest"
UNITS = {"khz": 0, "mhz": 3, "ghz": 6}
#: A plain number below this is more likely one of MHz, and no EPYC is that slow.
SMALLEST_KHZ = 100_000


class Policy:
    """What one policy shows: CPUs that change their frequency together, and what its driver offers them."""

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
        #: Whether boost can be switched for this policy alone, and what is known of it: "0", "1", None for unknown.
        self.own_boost = False
        self.boost: str | None = None

    def __str__(self) -> str:
        return f"{self.name} (CPUs {format_cpulist(self.cpus)})"


def list_policies(fs: KernelFS) -> list[str]:
    """Return the names of all policies, by number."""
    found = [name for name in fs.list_names(HOME) if name.startswith("policy") and name[6:].isdecimal()]
    return sorted(found, key=lambda name: int(name[6:]))


def read_policy_file(fs: KernelFS, policy: str, file: str) -> str | None:
    """Return what a policy's file holds; None where it is absent, or the policy has no CPU online."""
    try:
        text = fs.read_if_present(f"{HOME}/{policy}/{file}")
    except Refused as error:
        if error.errno == errno.EBUSY:
            return None
        raise
    return None if text is None or text == "<unsupported>" else text.strip()


def read_online_cpus(fs: KernelFS, policy: str) -> tuple[int, ...]:
    """Return the CPUs of a policy that are online; none where it sleeps."""
    return tuple(int(word) for word in (read_policy_file(fs, policy, "affected_cpus") or "").split())


def read_boost(fs: KernelFS, policy: str, cpus: tuple[int, ...]) -> str | None:
    """Return "1" where boost is on, "0" where it is off, "mixed", and None where nothing tells.

    Under acpi-cpufreq the files do not tell: ``cpb`` shows the switch of the whole machine whatever was written to it,
    and ``boost`` what was last written to itself. The register that both write is the truth.
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


def hidden_boost_reason(fs: KernelFS, policy: str, cpus: tuple[int, ...]) -> str:
    """Return why nothing tells the boost that a policy has of its own; an empty text where it has none, or it is told.

    Before its file ``boost`` there was only ``cpb``, which does not tell.
    """
    if read_policy_file(fs, policy, "cpb") is None or read_boost(fs, policy, cpus) is not None:
        return ""
    device = f"/dev/cpu/{cpus[0]}/msr" if cpus else ""
    if not device or fs.read_status(device) is None:
        return "the kernel module msr is not loaded (modprobe msr), through which boost is read on this kernel"
    return f"{device} cannot be read, through which boost is seen on this kernel"


def read_policy(fs: KernelFS, name: str) -> Policy:
    """Read one policy."""
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
    policy.own_boost = any(read_policy_file(fs, name, file) is not None for file in (BOOST, "cpb"))
    policy.boost = read_boost(fs, name, policy.cpus)
    # While boost is off, amd-pstate shows the base as the highest; this file keeps what it would be.
    policy.highest = max(policy.highest, read_policy_number(fs, name, "amd_pstate_max_freq") or 0)
    return policy


def read_policy_number(fs: KernelFS, policy: str, file: str) -> int | None:
    """Return the whole number that a policy's file holds; None where it holds none."""
    text = read_policy_file(fs, policy, file) or ""
    return int(text) if text.isdecimal() else None


def parse_frequency(raw: object, what: str) -> int | str:
    """Return kHz, or one of the names lowest, base and highest."""
    text = str(raw).strip().lower()
    if text in (LOWEST, BASE, HIGHEST):
        return text
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    whole, point, part = text[: len(text) - len(unit)].strip().partition(".")
    power = UNITS.get(unit, 0)
    # Digits rather than floats: 2.25 GHz is 2250000 kHz, not one less.
    if whole.isdecimal() and whole.isascii() and len(whole) <= 9 and (not point or (part.isdecimal() and unit)):
        digits = part.rstrip("0") if part.isascii() else "x" * 9
        khz = int(whole) * 10**power + int((digits or "0").ljust(power, "0")) if len(digits) <= power else 0
        if SMALLEST_KHZ <= khz < 10**8:
            return khz
    raise BadRequest(
        f"{what}: '{raw}' is no frequency; say it with a unit, as 2250MHz or 2.25GHz, as a whole number of kHz, or as "
        f"{LOWEST}, {BASE} or {HIGHEST}."
    )


def format_frequency(khz: int) -> str:
    """Return a frequency in words."""
    return f"{khz // 1000} MHz" if khz % 1000 == 0 else f"{khz / 1000:.3f} MHz"
