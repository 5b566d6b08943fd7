# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts grouped for people: what differs in one way in many places is one finding with one cause and one repair.

A boot service that is not enabled is one finding too, though every setting is lost at the next boot.
"""

from __future__ import annotations

from .._io.paths import BOOT_SERVICE
from .._knobs.address_kinds import BOOT, LAYER_TITLES, LLAMA, OTHER, RUN, find_kind
from .._knobs.catalogue import KNOBS, ROLES, row_of
from .._knobs.managed_units import BETWEEN_STATES
from .._knobs.protocol.knob import L3_DOMAIN
from .._notation.cpulist import format_cpulist, parse_cpulist
from . import origin, words
from .next_step import repair_of_unit
from .verdict import DRIFT, OK, PLAN, UNKNOWN, UNSUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .._host.host import Host
    from .._knobs.catalogue import RoleOf
    from .verdict import Verdict

#: The statuses of a setting in a count, worst last.
STATUSES = (OK, UNSUPPORTED, UNKNOWN, DRIFT)
#: Layer -> its name for people, in the order of the recipe.
LAYERS = {RUN: LAYER_TITLES[RUN], **{row.name: row.title for row in KNOBS.values()}, **LAYER_TITLES}
ORDER = list(LAYERS)
#: The address of a ledger of which no whole file is left: no run can mend that.
LOST = "ledger:lost"
#: Whether the boot service is enabled, as the module epyc_engine names it.
SERVICE_ENABLED = f"engine:{BOOT_SERVICE}/enabled"
SITE, REBOOT = "sovereign.epyc.site", "sovereign.epyc.reboot"
APPLY = "sovereign-epyc apply"


class Finding:
    """One thing on a host that is not as configured, in one place or in many."""

    __slots__ = (
        "addresses",
        "at_boot",
        "found",
        "layer",
        "live",
        "pending_reboot",
        "persistent",
        "reason",
        "repair",
        "request",
        "role",
        "status",
        "variables",
        "wanted",
        "what",
        "where",
    )

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
        #: A playbook with its options, for ansible-playbook; or a command for the host.
        self.repair = ""
        self.addresses: list[str] = []

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def layer_of(address: str) -> str:
    """Return the layer of an address."""
    kind, prefix = find_kind(address), address.partition(":")[0]
    return kind.layer if kind else prefix if prefix in LAYERS else OTHER


def status(verdict: Verdict, boot: str = "") -> str:
    """Return the status of a setting. A disabled boot service is not counted again for each setting."""
    if not verdict.supported:
        return UNSUPPORTED
    if UNKNOWN in (verdict.live, verdict.persistent):
        return DRIFT if DRIFT in (verdict.live, verdict.persistent) else UNKNOWN
    return OK if verdict.clean or (verdict.live == OK and boot and verdict.reason == boot) else DRIFT


def lost_at_boot(verdicts: Iterable[Verdict], boot: str) -> int:
    """Return how many settings only the boot service would make again, where ``boot`` is why it will not.

    What is unknown counts too; what the host cannot have, or what outlives a boot by itself, does not.
    """
    return sum(bool(boot) and (one.reason == boot or _needs_service(one)) for one in verdicts)


def _needs_service(verdict: Verdict) -> bool:
    row, rest = row_of(verdict.address), verdict.address.partition(":")[2]
    return verdict.supported and verdict.persistent == UNKNOWN and row is not None and not rest.startswith(row.lasting)


def coverage(verdicts: Sequence[Verdict], boot: str = "") -> dict[str, dict[str, int]]:
    """Return by layer how many settings have which status; a layer that is not configured is not in it."""
    counts: dict[str, dict[str, int]] = {}
    for verdict in verdicts:
        row = counts.setdefault(layer_of(verdict.address), dict.fromkeys(STATUSES, 0))
        row[status(verdict, boot)] += 1
    if counts.keys() - {BOOT, RUN}:
        row = counts.setdefault(BOOT, dict.fromkeys(STATUSES, 0))
        row[DRIFT if lost_at_boot(verdicts, boot) else OK] += 1
    return {layer: counts[layer] for layer in LAYERS if layer in counts}


def sum_of_layers(coverage: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how many settings of all layers have which status."""
    return {status: sum(counts.get(status, 0) for counts in coverage.values()) for status in STATUSES}


def findings(verdicts: Iterable[Verdict], boot: str = "", host: Host | None = None) -> list[Finding]:
    """Group verdicts; ``boot`` is why nothing is applied at boot, and ``host`` knows CCDs and the roles of CPUs."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    verdicts = list(verdicts)
    lost = lost_at_boot(verdicts, boot)
    for verdict in verdicts:
        if status(verdict, boot) != OK:
            groups.setdefault(_key(verdict), []).append(verdict)
    builder = _Builder(host)
    result = [builder.finding(members, boot) for members in groups.values()]
    if lost:
        result.append(_boot_finding(boot, lost))
    return sorted(result, key=lambda one: (ORDER.index(one.layer), words.natural(f"{one.what} {one.where}")))


def _key(verdict: Verdict) -> tuple[object, ...]:
    what, unit, dummy = words.describe(verdict.address)
    key = (what, unit, verdict.request, verdict.live, verdict.persistent, verdict.pending_reboot, verdict.reason)
    # What is stored has a value for each address too.
    row = row_of(verdict.address) or find_kind(verdict.address)
    if row and row.each_its_own_value:
        return key
    return (*key, verdict.wanted, verdict.found, verdict.at_boot)


def _boot_finding(boot: str, lost: int) -> Finding:
    finding = Finding(BOOT, "boot service", DRIFT)
    finding.where = BOOT_SERVICE
    finding.wanted, finding.found, finding.at_boot = "runs at boot", "does not", "does not"
    finding.persistent = DRIFT
    finding.reason = f"{boot}. Without it, {lost} setting{'' if lost == 1 else 's'} will not be made again at boot"
    finding.role, finding.variables = "base", ["base_state"]
    finding.repair = f"{SITE} --tags base"
    finding.addresses = [f"boot:{BOOT_SERVICE}"]
    return finding


class _Builder:
    """Makes findings; the CCDs of the host and the roles of its CPUs are read when first needed."""

    def __init__(self, host: Host | None) -> None:
        self.host = host
        self._ccds: Mapping[int, int] | None = None
        self._role_of: RoleOf | None = None

    def finding(self, members: Sequence[Verdict], boot: str) -> Finding:
        first = members[0]
        what, unit, dummy = words.describe(first.address)
        places = [place for place in (words.describe(one.address)[2] for one in members) if place is not None]
        finding = Finding(layer_of(first.address), what, status(first, boot))
        finding.where = words.where(unit, places, self.ccds() if unit == L3_DOMAIN else None)
        finding.wanted = _together(members, "wanted")
        finding.found = _together(members, "found")
        finding.at_boot = _together(members, "at_boot")
        finding.live, finding.persistent = first.live, first.persistent
        finding.pending_reboot = first.pending_reboot
        finding.reason = first.reason
        finding.request = first.request
        finding.addresses = [one.address for one in members]
        if finding.layer == RUN:
            # The sentence says all.
            finding.what, finding.reason, finding.repair = first.reason, "", SITE
            finding.wanted = finding.found = finding.at_boot = ""
            return finding
        if finding.layer == LLAMA:
            finding.role, finding.variables, finding.repair = repair_of_unit(first.address)
            if first.found in BETWEEN_STATES:
                # Its reason says what to do.
                finding.repair = ""
            return finding
        finding.role = ROLES.get(first.request, "")
        names = (origin.variable(one.request, one.address, one.wanted, self.role_of()) for one in members)
        finding.variables = [name for name in dict.fromkeys(names) if name]
        finding.repair = _repair(finding, first)
        return finding

    def ccds(self) -> Mapping[int, int]:
        if self._ccds is None:
            domains = [] if self.host is None else self.host.topology.l3
            self._ccds = {domain.id: domain.ccd for domain in domains if domain.id is not None}
        return self._ccds

    def role_of(self) -> RoleOf | None:
        if self._role_of is None and self.host is not None:
            self._role_of = _roles(self.host)
        return self._role_of


def _roles(host: Host) -> RoleOf:
    from .._errors import TuningError
    from .._host.host import ROLES

    try:
        roles = {cpu: role for role in ROLES for cpu in getattr(host.plan, role)}
    except TuningError:
        roles = {}  # An intent that does not fit is a finding of its own; this only looks for a name.
    return roles.get


def _together(members: Sequence[Verdict], name: str) -> str:
    """Return the value of all members; where they differ, each with its place."""
    texts = {one.address: words.value(one.address, getattr(one, name)) for one in members}
    if len(set(texts.values())) == 1 or not members:
        return texts[members[0].address]
    return ", ".join(f"{words.describe(address)[2]}={text}" for address, text in texts.items())


def _repair(finding: Finding, first: Verdict) -> str:
    if first.address.startswith(f"{PLAN}:"):
        away = set(parse_cpulist(first.wanted or "")) - set(parse_cpulist(first.found or ""))
        return f"chcpu --enable {format_cpulist(away)}"
    if finding.status == UNSUPPORTED or LOST in finding.addresses:
        return ""
    if finding.layer in KNOBS and KNOBS[finding.layer].needs_reboot and finding.pending_reboot:
        return f"{REBOOT} -e epyc_reboot_ok=true"
    if finding.role:
        return f"{SITE} --tags {finding.role}"
    if finding.addresses == [SERVICE_ENABLED]:
        return f"{SITE} --tags base"
    return SITE if finding.layer in (BOOT, OTHER) or not finding.request else APPLY
