# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which requested values each cpufreq driver can express, as pure functions of policies that were read before.

The kernel accepts values that it cannot apply, and silently applies others: a speed above the highest P-state becomes
that P-state, and a limit between two P-states becomes the lower one. Such values are refused here, and the message
names the nearest value that works. Sources: drivers/cpufreq/cpufreq.c, cpufreq_userspace.c, acpi-cpufreq.c and
amd-pstate.c of the Linux kernel, and the answers of the real acpi-cpufreq in the lab.
"""

from __future__ import annotations

from ..._errors import BadRequest
from .policy import (
    BASE,
    BOOST,
    DYNAMIC_EPP,
    EPP,
    FLOOR,
    GOVERNOR,
    HIGHEST,
    LOWEST,
    MAX,
    MIN,
    SPEED,
    format_frequency,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Optional

    from .policy import Policy

    #: File name below the policy -> text.
    Files = dict[str, Optional[str]]

ACPI, ACTIVE, PASSIVE = "acpi-cpufreq", "amd-pstate-epp", "amd-pstate"
USERSPACE, PERFORMANCE, POWERSAVE = "userspace", "performance", "powersave"


def plan_policy_files(policy: Policy, requested: Mapping[str, Any], remarks: list[str]) -> Files:
    """Return the wanted files of one policy without boost. Raises BadRequest for values the driver cannot express."""
    files: Files = {}
    governor = requested.get("governor") or (USERSPACE if requested.get("speed") else None)
    if governor:
        _refuse_impossible_governor(policy, governor, requested.get("speed"))
        files[GOVERNOR] = governor
        if policy.speed is not None and governor != USERSPACE:
            # The speed ends with the governor; None is wanted, so that the ledger stores the original.
            files[SPEED] = None
    _plan_limits(policy, requested, files, remarks)
    if requested.get("speed"):
        _plan_userspace_speed(policy, requested, files, remarks)
    _plan_energy_preference(policy, governor or policy.governor, requested, files)
    if requested.get("floor"):
        _plan_floor(policy, requested, files)
    return files


def _refuse_impossible_governor(policy: Policy, governor: str, speed: object) -> None:
    if speed and policy.driver == ACTIVE:
        raise BadRequest(
            f"{policy}: {ACTIVE}, which is amd-pstate in active mode, has no fixed speed. Set min and max to the same "
            "frequency, with governor performance."
        )
    if speed and governor != USERSPACE:
        raise BadRequest(
            f"{policy}: a fixed speed needs the governor {USERSPACE}, and {governor} is asked for. Leave the governor "
            "out, or set min and max instead of speed."
        )
    if governor in policy.governors:
        return
    if policy.driver == ACTIVE:
        near = "set min and max to the same frequency with governor performance"
        if governor != USERSPACE:
            near = "the nearest is powersave with epp balance_performance"
        raise BadRequest(
            f"{policy}: {ACTIVE}, which is amd-pstate in active mode, has the governors performance and powersave "
            f"only, not {governor}; {near}."
        )
    raise BadRequest(
        f"{policy}: there is no governor {governor}; the kernel offers {', '.join(policy.governors) or 'none'}. Others "
        f"come as kernel modules ('modprobe cpufreq_{governor}')."
    )


def _plan_limits(policy: Policy, requested: Mapping[str, Any], files: Files, remarks: list[str]) -> None:
    low, high = policy.min, policy.max
    if requested.get("max"):
        high = _resolve_frequency(policy, "max", requested["max"], requested.get("boost"))
        if policy.firmware_limit and policy.driver == ACPI and high > policy.firmware_limit:
            raise BadRequest(
                f"{policy}: max {format_frequency(high)} is above the {format_frequency(policy.firmware_limit)} to "
                "which the firmware limits this CPU now (bios_limit). Look for a limit of power or temperature in the "
                "BIOS or its management controller."
            )
        files[MAX] = str(high)
        _add_boost_remark(policy, "max", requested, high, remarks)
    elif requested.get("boost") is False and policy.driver in (ACTIVE, PASSIVE) and policy.base and high > policy.base:
        # The driver lowers the limit with the boost. The limit is wanted too, so that the ledger stores the original.
        high = policy.base
        files[MAX] = str(high)
    if requested.get("min"):
        low = _resolve_frequency(policy, "min", requested["min"], requested.get("boost"))
        files[MIN] = str(low)
    if (MIN in files or MAX in files) and low > high:
        limits = [
            f"{name} is {format_frequency(khz)} ({'asked for' if name in requested else 'as it is now'})"
            for name, khz in (("min", low), ("max", high))
        ]
        raise BadRequest(f"{policy}: {' and '.join(limits)}; the kernel keeps min at or below max. Give both.")


def _resolve_frequency(policy: Policy, option: str, requested: int | str, boost: bool | None) -> int:
    """Return a requested frequency in kHz, refusing one that the driver would change."""
    table = policy.states if policy.driver == ACPI else ()
    highest = table[0] if table else policy.highest
    if boost is False and policy.driver in (ACTIVE, PASSIVE) and policy.base:
        highest = min(highest, policy.base)
    if requested == BASE:
        if policy.base is None:
            raise BadRequest(
                f"{policy}: the kernel does not show the base frequency (no acpi_cppc/nominal_freq); give {option} in "
                "MHz."
            )
        return policy.base
    if isinstance(requested, str):
        return {LOWEST: table[-1] if table else policy.lowest, HIGHEST: highest}[requested]
    name = f"{policy}: {option} {format_frequency(requested)}"
    if table and requested > table[0]:
        raise BadRequest(
            f"{name} cannot be had. {policy.driver} has the P-states {_format_pstates(table)}, of which the highest is "
            f"the base frequency; the kernel would take {format_frequency(requested)} and make it "
            f"{format_frequency(table[0])} silently. Above that the hardware boosts by itself: set boost to true here, "
            f"with governor performance, and to false where {format_frequency(table[0])} shall be the limit."
        )
    if table and requested not in table:
        near = min(table, key=lambda state: abs(state - requested))
        raise BadRequest(
            f"{name} is no P-state of {policy.driver}, which has {_format_pstates(table)}; the kernel would round it "
            f"silently. The nearest is {format_frequency(near)}."
        )
    if not policy.lowest <= requested <= highest:
        off = " while boost is off" if boost is False else ""
        raise BadRequest(
            f"{name} is outside of what {policy.driver} offers{off}, {format_frequency(policy.lowest)} to "
            f"{format_frequency(highest)}; the kernel would clamp it silently."
        )
    return requested


def _format_pstates(table: Sequence[int]) -> str:
    return ", ".join(format_frequency(state) for state in table)


def _add_boost_remark(policy: Policy, option: str, requested: Mapping[str, Any], khz: int, remarks: list[str]) -> None:
    """Add a remark if the limit is the highest P-state of acpi-cpufreq, from which the hardware boosts."""
    boosts = policy.boost != "0" if requested.get("boost") is None else requested["boost"]
    if policy.driver == ACPI and policy.own_boost and boosts and khz == policy.base and requested[option] != HIGHEST:
        remarks.append(
            f"{option} {format_frequency(khz)} is the highest P-state, from which the hardware boosts while boost is "
            "on. Set boost to false where that shall be the limit."
        )


def _plan_userspace_speed(policy: Policy, requested: Mapping[str, Any], files: Files, remarks: list[str]) -> None:
    speed = _resolve_frequency(policy, "speed", requested["speed"], requested.get("boost"))
    low, high = int(files.get(MIN) or policy.min), int(files.get(MAX) or policy.max)
    if not low <= speed <= high:
        raise BadRequest(
            f"{policy}: speed {format_frequency(speed)} is outside of the limits there, {format_frequency(low)} to "
            f"{format_frequency(high)}; the kernel would clamp it silently. Give min and max as well."
        )
    files[SPEED] = str(speed)
    _add_boost_remark(policy, "speed", requested, speed, remarks)


def _plan_energy_preference(policy: Policy, governor: str | None, requested: Mapping[str, Any], files: Files) -> None:
    epp = requested.get("epp")
    if policy.driver != ACTIVE:
        if epp:
            raise BadRequest(
                f"{policy}: {policy.driver} has no energy performance preference; only {ACTIVE} has (amd_pstate=active "
                "on the kernel's command line). The nearest here is a governor: performance, schedutil or powersave."
            )
        return
    if epp and policy.preference_is_locked:
        raise BadRequest(
            f"{policy}: amd-pstate chooses the energy preference of all CPUs by itself here, and the kernel refuses "
            f"every epp (EBUSY). Write 'disabled' to {DYNAMIC_EPP}, or leave epp out."
        )
    if epp and governor == PERFORMANCE and epp != PERFORMANCE:
        raise BadRequest(
            f"{policy}: under the governor {PERFORMANCE} the kernel refuses every epp but {PERFORMANCE} (EBUSY). Set "
            f"governor to {POWERSAVE}, which with epp {epp} is not slow: the hardware chooses the frequency."
        )
    # While the governor is performance, the list has only this preference, so the list is not complete.
    if epp and policy.governor != PERFORMANCE and policy.preferences and epp not in policy.preferences:
        raise BadRequest(f"{policy}: there is no epp {epp}; the kernel offers {', '.join(policy.preferences)}.")
    can_be_set = policy.preference is not None and not policy.preference_is_locked
    if GOVERNOR in files and governor == PERFORMANCE and can_be_set:
        # The governor sets the preference. The preference is wanted too, so that the ledger stores the original.
        files[EPP] = PERFORMANCE
    elif epp:
        files[EPP] = epp


def _plan_floor(policy: Policy, requested: Mapping[str, Any], files: Files) -> None:
    if policy.floor is None:
        raise BadRequest(
            f"{policy}: there is no {FLOOR}: the CPU has no CPPC performance priority, the kernel does not know it, or "
            f"the driver is not amd-pstate but {policy.driver or 'none'}. Leave floor out on this host."
        )
    floor = _resolve_frequency(policy, "floor", requested["floor"], requested.get("boost"))
    high = int(files.get(MAX) or policy.max)
    if floor > high:
        raise BadRequest(
            f"{policy}: floor {format_frequency(floor)} is above max, {format_frequency(high)}, which the kernel "
            "refuses. Raise max, or lower the floor."
        )
    files[FLOOR] = str(floor)


def refuse_too_many_floors(policies: Sequence[Policy], wanted: Mapping[str, int]) -> None:
    """Raise BadRequest where the policies of the host would have more different floors than the hardware knows."""
    limit = next((policy.floor_count for policy in policies if policy.floor_count), None)
    floors = {wanted.get(policy.name, policy.floor) for policy in policies} - {None}
    if limit and len(floors) > limit:
        shown = ", ".join(format_frequency(floor) for floor in sorted(filter(None, floors)))
        raise BadRequest(
            f"floor: the CPUs of this host would have {len(floors)} different floors, {shown}, and the hardware knows "
            f"{limit}. Beyond that nothing defines what it does. Ask the same floor for more CPUs."
        )


def plan_boost(
    policies: Sequence[Policy], requested: Mapping[str, bool], machine_switch: str | None, may_be_hidden: bool = False
) -> dict[str, str]:
    """Return the wanted boost switches: by policy name, and as ``boost`` the switch of the whole machine.

    ``policies`` are all policies of the host, ``requested`` the wanted boost by policy name, and ``machine_switch`` the
    state of the switch of the machine, None without such a switch. With ``may_be_hidden``, the boost of a policy may be
    unknown.
    """
    if not requested:
        return {}
    concerned = [policy for policy in policies if policy.name in requested]
    values = set(requested.values())
    uniform = len(concerned) == len(policies) and len(values) == 1
    text = {True: "1", False: "0"}
    whole = {BOOST: text[next(iter(values))]} if uniform and machine_switch is not None else {}
    driver = concerned[0].driver
    if machine_switch is None and not any(policy.own_boost for policy in concerned):
        _refuse_boost_without_switch(concerned, requested)
        return {}
    if not all(policy.own_boost for policy in concerned):
        if whole or {text[value] for value in values} == {machine_switch}:
            return whole or {BOOST: text[next(iter(values))]}
        near = "update the kernel" if driver == ACPI else "set max to base where boost is not wanted"
        raise BadRequest(
            f"{concerned[0]}: {driver} of this kernel has one boost switch for the whole machine (now "
            f"{'on' if machine_switch == '1' else 'off'}), so CPUs cannot differ. Ask the same of all, or {near}."
        )
    if any(policy.boost is None for policy in concerned):
        if whole:
            return whole
        if not may_be_hidden:
            raise BadRequest(_unprovable_boost_message(concerned[0]))
    wanted = {name: text[value] for name, value in requested.items()}
    if machine_switch == "0" and True in values and not whole:
        # Boost of one policy needs the switch of the machine, so policies that were off are switched off again.
        whole = {BOOST: "1"}
        wanted.update({policy.name: "0" for policy in policies if policy.name not in requested and policy.boost == "0"})
    return {**whole, **wanted}


def _unprovable_boost_message(policy: Policy) -> str:
    return (
        f"{policy}: this kernel takes boost per policy (cpb), but shows only the switch of the whole machine, so "
        "nothing would prove it. Load the kernel module msr ('modprobe msr'), through which the register is read, or "
        "ask the same of all CPUs."
    )


def _refuse_boost_without_switch(policies: Sequence[Policy], requested: Mapping[str, bool]) -> None:
    """Refuse a boost that differs from the behaviour of a driver without a boost switch.

    amd-pstate of such a kernel always lets the hardware boost; its highest frequency shows whether the hardware can.
    """
    for policy in policies:
        amd_pstate = policy.driver in (ACTIVE, PASSIVE)
        if requested[policy.name] and amd_pstate and policy.base and policy.highest > policy.base:
            continue
        if requested[policy.name] and amd_pstate and policy.base:
            raise BadRequest(
                f"{policy}: boost cannot be had. {policy.driver} shows no frequency above the base of "
                f"{format_frequency(policy.base)}, so boost is switched off in the BIOS (Core Performance Boost)."
            )
        near = "set max to base instead" if amd_pstate else "switch boost in the BIOS, or by msr_bits (hwcr)"
        raise BadRequest(
            f"{policy}: {policy.driver} shows no boost switch here: this CPU or BIOS has no boost, or the kernel is "
            f"too old. The nearest is to {near}."
        )
