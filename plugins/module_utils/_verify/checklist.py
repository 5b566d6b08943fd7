# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a tuned host: one item for each kind of setting, and items that no single setting shows.

Its items are made of the findings of the drift check, so they say what the kernel shows now.
"""

from __future__ import annotations

from .._drift import words
from .._drift.findings import SERVICE_ENABLED
from .._drift.verdict import PLAN
from .._errors import BadRequest
from .._io.paths import BOOT_SERVICE
from .._kernel import partitions
from .._knobs.address_kinds import BOOT, LLAMA, RUN
from .._knobs.boot.knob import PREFIX as CMDLINE
from .._knobs.boot.request import ISOLCPUS_FLAGS
from .._knobs.catalogue import KNOBS
from .._knobs.managed_units import BETWEEN_STATES
from .._notation.cpulist import format_cpulist, parse_boot_cpulist, parse_cpulist
from . import boot_service, unit_threads
from .bios import check as bios_settings
from .bios.setting import KernelView
from .checklist_items import NOT_CHECKED, NOT_CONFIGURED, OK, PENDING, UNKNOWN, UNSUPPORTED, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._drift.findings import Finding
    from .._drift.survey import Survey
    from .._drift.verdict import Verdict
    from .._io.kernelfs import KernelFS

#: The number of findings that a sentence names; further ones are only counted.
MAX_NAMED = 3
#: Addresses of findings that belong to the item on the boot service.
BOOT_SERVICE_ADDRESSES = (f"boot:{BOOT_SERVICE}", SERVICE_ENABLED)
#: Last words of the addresses of findings that the items on a running service cover too.
RUNNING_STATES = ("active", "loaded")
#: Boot parameter -> the file in which the kernel shows the CPUs to which it applies.
ISOLATION_FILES = {"isolcpus": "/sys/devices/system/cpu/isolated", "nohz_full": "/sys/devices/system/cpu/nohz_full"}


class Checklist:
    """What is expected of a host in addition to its stored requests."""

    def __init__(
        self,
        *,
        bios: Mapping[str, str],
        layers: Sequence[str],
        units: Mapping[str, str],
        allow_pending_reboot: bool,
        tuned: bool = False,
        services: bool = True,
    ) -> None:
        """Each of ``layers`` must have a stored request; ``units`` maps systemd units to the CPUs of their threads.

        With ``tuned`` the host must be tuned, and every finding of the drift check becomes an item. With ``services``
        the caller adds items on what instances answer. Raises BadRequest for an unknown layer.
        """
        unknown = [name for name in layers if name not in KNOBS]
        if unknown:
            raise BadRequest(f"layers: there is no knob {', '.join(unknown)}; say some of {', '.join(KNOBS)}.")
        self.bios = bios
        self.layers = layers
        self.units = units
        self.allow_pending_reboot = allow_pending_reboot
        self.tuned = tuned
        self.services = services

    def check_host(self, survey: Survey, boot_run: tuple[str | None, str]) -> list[Item]:
        """Return all items in the order of the recipe; ``boot_run`` is the result of read_boot_service_state."""
        host, findings = survey.host, survey.list_findings()
        items = self._host_items(findings) if self.tuned else []
        items += bios_settings.check_bios_settings(
            KernelView(host.fs, host.topology), self.bios, only={"nps", "smt", *self.bios}
        )
        for name in KNOBS:
            layer_findings = [finding for finding in findings if finding.layer == name and not _is_about_plan(finding)]
            number = sum(verdict.request.partition("/")[0] == name for verdict in survey.verdicts)
            items.append(self._layer_item(name, layer_findings, number, survey.boot_failure))
        items += [
            Item("cpus", "CPUs of the plan", WRONG, _findings_message([finding]))
            for finding in findings
            if _is_about_plan(finding)
        ]
        items.append(_check_isolation(host.fs, survey.verdicts))
        items.append(_boot_service_item(*boot_run, any(verdict.request for verdict in survey.verdicts)))
        items += [unit_threads.check_unit_threads(host, unit, cpus) for unit, cpus in self.units.items()]
        return [*items, *self._unit_items(findings)] if self.tuned else items

    def _host_items(self, findings: Sequence[Finding]) -> list[Item]:
        """Return items on a run that did not end, and on wrong stored documents, if there are such findings."""
        stored = [
            finding
            for finding in findings
            if finding.layer == BOOT and finding.addresses[0] not in BOOT_SERVICE_ADDRESSES
        ]
        items = [
            Item("run", "run of site.yml", WRONG, _findings_message([finding]))
            for finding in findings
            if finding.layer == RUN
        ]
        return [
            *items,
            *(
                Item("stored", "what is stored", _finding_verdict(finding), _findings_message([finding]))
                for finding in stored
            ),
        ]

    def _unit_items(self, findings: Sequence[Finding]) -> list[Item]:
        """Return items on units of instances that differ from what was written, and one if services are left out."""
        units = [finding for finding in findings if finding.layer == LLAMA]
        if self.services:
            units = [finding for finding in units if finding.addresses[0].rpartition("/")[2] not in RUNNING_STATES]
            return [_unit_item(finding) for finding in units]
        left_out = "What instances answer, and where they compute (epyc_verify_services is false)."
        return [
            # A unit that is being started is judged only with services, where it is asked for an answer.
            *(_unit_item(finding) for finding in units if finding.found not in BETWEEN_STATES),
            Item("services", "services", NOT_CHECKED, left_out),
        ]

    def _layer_item(self, name: str, findings: Sequence[Finding], count: int, not_at_boot_reason: str) -> Item:
        """Return the item on a kind of setting, of which ``count`` settings are stored."""
        title = KNOBS[name].title
        if not count and not findings:
            if name in self.layers:
                return Item(
                    name, title, WRONG, "Nothing is stored for it on this host, but it is required. Run site.yml."
                )
            return Item(name, title, NOT_CONFIGURED, "Nothing is stored for it on this host.")
        waiting = [finding for finding in findings if finding.pending_reboot and KNOBS[name].needs_reboot]
        others = [finding for finding in findings if finding not in waiting]
        groups = [
            (verdict, [finding for finding in others if _finding_verdict(finding) == verdict])
            for verdict in (WRONG, UNSUPPORTED, UNKNOWN)
        ]
        groups.append((PENDING if self.allow_pending_reboot else WRONG, waiting))
        messages = [(verdict, _findings_message(members, title)) for verdict, members in groups if members]
        if not messages:
            return Item(
                name,
                title,
                OK,
                f"{_format_count(count)} in force{'' if not_at_boot_reason else ', and kept over a boot'}.",
            )
        worst = min((verdict for verdict, dummy in messages), key=(WRONG, UNSUPPORTED, UNKNOWN, PENDING).index)
        return Item(name, title, worst, " ".join(text for dummy, text in messages))


def _is_about_plan(finding: Finding) -> bool:
    """Return whether a finding is about offline CPUs of a role of the plan."""
    return finding.addresses[0].startswith(f"{PLAN}:")


def _unit_item(finding: Finding) -> Item:
    return Item("units", finding.what, _finding_verdict(finding), _findings_message([finding], finding.what))


def _finding_verdict(finding: Finding) -> str:
    """Return the verdict of the item for a finding."""
    return finding.status if finding.status in (UNSUPPORTED, UNKNOWN) else WRONG


def _findings_message(findings: Sequence[Finding], title: str = "") -> str:
    """Return sentences that name the first findings, count the others, and say what to do about all.

    The item shows its ``title`` already, so the sentences do not begin with it.
    """
    rows = [finding.to_dict() for finding in findings]
    more = f"; and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    named = "; ".join(map(words.format_finding, rows[:MAX_NAMED])).removeprefix(f"{title}: ")
    return " ".join([f"{named}{more}.", *words.list_next_steps(rows)])


def _format_count(number: int) -> str:
    return f"{number} setting{'' if number == 1 else 's'}"


def _check_isolation(fs: KernelFS, verdicts: Sequence[Verdict]) -> Item:
    """Return the item that compares isolated CPUs with boot parameters, of which the kernel ignores some silently."""
    name, title = "isolation", "isolated CPUs"
    wanted = {v.address[len(CMDLINE) :]: v.wanted for v in verdicts if v.address.startswith(CMDLINE) and v.live == OK}
    ok_sentences, wrong_sentences = [], []
    for parameter, path in ISOLATION_FILES.items():
        parts = (wanted.get(parameter) or "").split(",")
        flags = [part for part in parts if part in ISOLCPUS_FLAGS]
        if not parts[0] or (parameter == "isolcpus" and flags and "domain" not in flags):
            continue
        last = parse_cpulist(fs.read("/sys/devices/system/cpu/present"))[-1]
        requested = set(parse_boot_cpulist(",".join(part for part in parts if part not in flags), last))
        isolated = fs.read_if_present(path)
        if isolated is None:
            wrong_sentences.append(
                f"There is no {path}, so {parameter} is without effect: this kernel was built without it."
            )
        # The kernel writes "(null)" for no CPUs.
        elif "null" not in isolated and requested <= set(parse_cpulist(isolated.strip())):
            ok_sentences.append(f"{path} holds {isolated}.")
        else:
            wrong_sentences.append(
                f"{path} holds {isolated or 'nothing'}, and {parameter} asks for {format_cpulist(requested)}."
            )
    kind, cpus = partitions.read_partition_in_force(fs)
    if kind:
        leaks = [
            group.name
            for group in partitions.list_groups_with_cpus(fs, file="cpuset.cpus.effective")
            if group.cpus & cpus
        ]
        ok_sentences.append(
            f"{partitions.SLICE} is a partition ({kind}) of CPUs {format_cpulist(cpus)}: only its tasks run there, and "
            "threads of the kernel. The timer tick and RCU callbacks are there unless boot parameters keep them off."
        )
        if leaks:
            wrong_sentences.append(
                f"{', '.join(leaks[:MAX_NAMED])} may run on CPUs of the partition of {partitions.SLICE}."
            )
    if wrong_sentences:
        return Item(name, title, WRONG, " ".join(wrong_sentences))
    if ok_sentences:
        return Item(name, title, OK, " ".join(ok_sentences))
    return Item(
        name,
        title,
        NOT_CONFIGURED,
        "Neither a parameter of this boot nor a partition takes CPUs from the scheduler or its tick.",
    )


def _boot_service_item(state: str | None, sentence: str, has_stored_settings: bool) -> Item:
    name, title = "boot_service", "boot service"
    if state is None:
        return Item(name, title, UNKNOWN, sentence)
    if state == boot_service.MISSING and not has_stored_settings:
        return Item(name, title, NOT_CONFIGURED, "Nothing is stored on this host that it would apply.", found=state)
    verdicts = {boot_service.DONE: OK, boot_service.IDLE: OK, boot_service.STARTING: UNKNOWN}
    return Item(name, title, verdicts.get(state, WRONG), sentence, found=state)
