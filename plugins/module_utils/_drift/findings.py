# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts grouped into findings: settings that differ in the same way in many places are one finding with one repair.

A boot service that is not enabled is one finding too, though the next boot then loses every setting.
"""

from __future__ import annotations

from .._io.paths import BOOT_SERVICE
from .._knobs.address_kinds import BOOT, LAYER_TITLES, LLAMA, OTHER, RUN, find_address_kind, format_plural
from .._knobs.catalogue import KNOBS, ROLES, find_knob_row
from .._knobs.managed_units import BETWEEN_STATES
from .._knobs.protocol.knob import L3_DOMAIN
from .._notation.cpulist import format_cpulist, parse_cpulist
from . import origin, words
from .next_step import role_variables_and_repair_of_unit
from .verdict import DRIFT, OK, PLAN, UNKNOWN, UNSUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .._host.host import Host
    from .._knobs.catalogue import RoleOf
    from .verdict import Verdict

#: The statuses of a setting, the worst last.
STATUSES = (OK, UNSUPPORTED, UNKNOWN, DRIFT)
#: Layer -> its name for people, in the order of a report.
LAYERS = {RUN: LAYER_TITLES[RUN], **{row.name: row.title for row in KNOBS.values()}, **LAYER_TITLES}
LAYER_ORDER = list(LAYERS)
#: The address of a ledger without an undamaged file. No run can repair such a ledger.
LOST_LEDGER = "ledger:lost"
#: The address under which the module epyc_host_tool reports whether the boot service is enabled.
SERVICE_ENABLED = f"host_tool:{BOOT_SERVICE}/enabled"
SITE, REBOOT = "sovereign.epyc.site", "sovereign.epyc.reboot"
APPLY_COMMAND = "sovereign-epyc apply"


class Finding:
    """A setting of a host that is not as configured, in one place or in several."""

    def __init__(self, layer: str, what: str, status: str) -> None:
        self.layer = layer
        self.what = what
        self.where = ""
        self.status = status
        self.wanted = self.found = self.at_boot = ""
        self.live = self.persistent = OK
        self.pending_reboot = False
        self.reason = ""
        self.request = ""
        self.role = ""
        self.variables: list[str] = []
        #: A playbook with its options, for ansible-playbook, or a command for the host; empty without a repair.
        self.repair = ""
        self.addresses: list[str] = []

    def to_dict(self) -> dict[str, object]:
        return dict(vars(self))


def layer_of_address(address: str) -> str:
    """Return the layer that an address is reported in."""
    kind, prefix = find_address_kind(address), address.partition(":")[0]
    return kind.layer if kind else prefix if prefix in LAYERS else OTHER


def status_of_verdict(verdict: Verdict) -> str:
    """Return the status of a setting.

    A setting that only a failing boot service would lose is ok: the boot service has a finding of its own.
    """
    if not verdict.supported:
        return UNSUPPORTED
    if UNKNOWN in (verdict.live, verdict.persistent):
        return DRIFT if DRIFT in (verdict.live, verdict.persistent) else UNKNOWN
    return OK if verdict.is_clean or (verdict.live == OK and verdict.lost_with_service) else DRIFT


def count_settings_lost_at_boot(verdicts: Iterable[Verdict], boot_failure: str) -> int:
    """Return how many settings the next boot loses.

    ``boot_failure`` is why the boot service will fail, "" if it will work. Unknown settings count too, except
    where they are not supported or outlive a boot by themselves.
    """
    return sum(
        bool(boot_failure) and (verdict.lost_with_service or _needs_boot_service(verdict)) for verdict in verdicts
    )


def _needs_boot_service(verdict: Verdict) -> bool:
    row, rest = find_knob_row(verdict.address), verdict.address.partition(":")[2]
    return verdict.supported and verdict.persistent == UNKNOWN and row is not None and not rest.startswith(row.lasting)


def count_by_layer(verdicts: Sequence[Verdict], boot_failure: str = "") -> dict[str, dict[str, int]]:
    """Return the number of settings by layer and status. A layer without settings is left out."""
    counts: dict[str, dict[str, int]] = {}
    for verdict in verdicts:
        row = counts.setdefault(layer_of_address(verdict.address), dict.fromkeys(STATUSES, 0))
        row[status_of_verdict(verdict)] += 1
    if counts.keys() - {BOOT, RUN}:
        row = counts.setdefault(BOOT, dict.fromkeys(STATUSES, 0))
        row[DRIFT if count_settings_lost_at_boot(verdicts, boot_failure) else OK] += 1
    return {layer: counts[layer] for layer in LAYERS if layer in counts}


def sum_layer_counts_by_status(counts_by_layer: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the number of settings of all layers by status."""
    return {status: sum(counts.get(status, 0) for counts in counts_by_layer.values()) for status in STATUSES}


def group_into_findings(verdicts: Iterable[Verdict], boot_failure: str = "", host: Host | None = None) -> list[Finding]:
    """Return the findings of verdicts, sorted by layer.

    ``boot_failure`` is why the boot service will fail, "" if it will work. ``host`` provides the CCDs of L3 domains and
    the roles of CPUs; without ``host``, both are left out.
    """
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    verdicts = list(verdicts)
    lost = count_settings_lost_at_boot(verdicts, boot_failure)
    for verdict in verdicts:
        if status_of_verdict(verdict) != OK:
            groups.setdefault(_key_of_common_finding(verdict), []).append(verdict)
    builder = _FindingBuilder(host)
    result = [builder.build_finding(members) for members in groups.values()]
    if lost:
        result.append(_finding_on_failing_boot_service(boot_failure, lost))
    return sorted(result, key=_report_sort_key)


def _report_sort_key(finding: Finding) -> tuple[object, ...]:
    return LAYER_ORDER.index(finding.layer), words.natural_sort_key(f"{finding.what} {finding.where}")


def _key_of_common_finding(verdict: Verdict) -> tuple[object, ...]:
    what, unit, dummy = words.name_and_place_of_address(verdict.address)
    key = (what, unit, verdict.request, verdict.live, verdict.persistent, verdict.pending_reboot, verdict.reason)
    # Settings whose value differs by address anyway are one finding, whatever their values are.
    row = find_knob_row(verdict.address) or find_address_kind(verdict.address)
    if row and row.each_its_own_value:
        return key
    return (*key, verdict.wanted, verdict.found, verdict.at_boot)


def _finding_on_failing_boot_service(boot_failure: str, lost_count: int) -> Finding:
    finding = Finding(BOOT, "boot service", DRIFT)
    finding.where = BOOT_SERVICE
    finding.wanted, finding.found, finding.at_boot = "runs at boot", "does not", "does not"
    finding.persistent = DRIFT
    settings = format_plural("setting", lost_count)
    finding.reason = f"{boot_failure}. Without it, {lost_count} {settings} will not be made again at boot"
    finding.role, finding.variables = "base", ["epyc_base_state"]
    finding.repair = f"{SITE} --tags base"
    finding.addresses = [f"boot:{BOOT_SERVICE}"]
    return finding


class _FindingBuilder:
    """Builds findings. The CCDs of the host and the roles of its CPUs are read at their first use."""

    def __init__(self, host: Host | None) -> None:
        self.host = host
        self._ccds: Mapping[int, int] | None = None
        self._role_of: RoleOf | None = None

    def build_finding(self, members: Sequence[Verdict]) -> Finding:
        first = members[0]
        what, unit, dummy = words.name_and_place_of_address(first.address)
        places = [words.name_and_place_of_address(verdict.address)[2] for verdict in members]
        finding = Finding(layer_of_address(first.address), what, status_of_verdict(first))
        finding.where = words.format_location(
            unit,
            [place for place in places if place is not None],
            self.ccd_by_l3_domain() if unit == L3_DOMAIN else None,
        )
        for name in ("wanted", "found", "at_boot"):
            setattr(finding, name, _format_values_by_place(members, name))
        for name in ("live", "persistent", "pending_reboot", "reason", "request"):
            setattr(finding, name, getattr(first, name))
        finding.addresses = [verdict.address for verdict in members]
        if finding.layer == RUN:
            # A run that did not end is no setting with values: its reason is the whole finding.
            finding.what, finding.reason, finding.repair = first.reason, "", SITE
            finding.wanted = finding.found = finding.at_boot = ""
            return finding
        if finding.layer == LLAMA:
            finding.role, finding.variables, finding.repair = role_variables_and_repair_of_unit(first.address)
            if first.found in BETWEEN_STATES:
                finding.repair = ""  # systemd is starting or stopping the unit, so no repair is needed.
            return finding
        finding.role = ROLES.get(first.request, "")
        names = (
            origin.find_deciding_variable(member.request, member.address, member.wanted, self.cpu_role_lookup())
            for member in members
        )
        finding.variables = [name for name in dict.fromkeys(names) if name]
        finding.repair = _choose_repair(finding, first)
        return finding

    def ccd_by_l3_domain(self) -> Mapping[int, int]:
        if self._ccds is None:
            domains = [] if self.host is None else self.host.topology.l3
            self._ccds = {domain.id: domain.ccd for domain in domains if domain.id is not None}
        return self._ccds

    def cpu_role_lookup(self) -> RoleOf | None:
        if self._role_of is None and self.host is not None:
            self._role_of = _build_cpu_role_lookup(self.host)
        return self._role_of


def _build_cpu_role_lookup(host: Host) -> RoleOf:
    from .._errors import TuningError
    from .._host.intent import ROLES

    try:
        roles = {cpu: role for role in ROLES for cpu in getattr(host.plan, role)}
    except TuningError:
        roles = {}  # An intent that does not fit the host has a finding of its own, so here no variable is named.
    return roles.get


def _format_values_by_place(members: Sequence[Verdict], field: str) -> str:
    """Return the common value of verdicts; where the values differ, each place with its value."""
    texts = {verdict.address: words.format_value(verdict.address, getattr(verdict, field)) for verdict in members}
    if len(set(texts.values())) == 1 or not members:
        return texts[members[0].address]
    return ", ".join(f"{words.name_and_place_of_address(address)[2]}={text}" for address, text in texts.items())


def _choose_repair(finding: Finding, first: Verdict) -> str:
    if first.address.startswith(f"{PLAN}:"):
        offline = set(parse_cpulist(first.wanted or "")) - set(parse_cpulist(first.found or ""))
        return f"chcpu --enable {format_cpulist(offline)}"
    if finding.status == UNSUPPORTED or LOST_LEDGER in finding.addresses:
        return ""
    if finding.layer in KNOBS and KNOBS[finding.layer].needs_reboot and finding.pending_reboot:
        return f"{REBOOT} -e epyc_reboot_ok=true"
    if finding.role:
        return f"{SITE} --tags {finding.role}"
    if finding.addresses == [SERVICE_ENABLED]:
        return f"{SITE} --tags base"
    return SITE if finding.layer in (BOOT, OTHER) or not finding.request else APPLY_COMMAND
