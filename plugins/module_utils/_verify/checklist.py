# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a tuned host: one item for each kind of setting, made of the findings of the drift check.

Further items judge BIOS settings, isolated CPUs, the boot service, and threads of services.
"""

from __future__ import annotations

from .._drift import words
from .._drift.findings import SERVICE_ENABLED
from .._drift.verdict import PLAN
from .._errors import BadRequest
from .._io.paths import BOOT_SERVICE
from .._kernel import partitions
from .._knobs.address_kinds import BOOT, LLAMA, RUN, format_plural
from .._knobs.boot.knob import PREFIX as CMDLINE
from .._knobs.boot.request import ISOLCPUS_FLAGS
from .._knobs.catalogue import KNOBS
from .._knobs.managed_units import BETWEEN_STATES
from .._notation.cpulist import format_cpulist, parse_boot_cpulist, parse_cpulist
from . import boot_service, unit_threads
from .bios import check as bios_settings
from .bios.setting import KernelView
from .checklist_items import NOT_CHECKED, NOT_CONFIGURED, OK, PENDING, UNKNOWN, UNSUPPORTED, WRONG, Item
from .memory_item import build_memory_item, list_items_on_memory_beside_huge_pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._drift.findings import Finding
    from .._drift.survey import Survey
    from .._drift.verdict import Verdict
    from .._io.kernelfs import KernelFS

#: The number of findings or groups that a sentence names; further findings are only counted.
MAX_NAMED = 3
#: Addresses of findings that the item on the boot service covers.
BOOT_SERVICE_ADDRESSES = (f"boot:{BOOT_SERVICE}", SERVICE_ENABLED)
#: The last part of the address of a finding on a unit that is not running. The items on its instance cover it too.
RUNNING_STATES = ("active", "loaded")
#: Boot parameter -> the file in which the kernel shows the CPUs to which it applies.
ISOLATION_FILES = {"isolcpus": "/sys/devices/system/cpu/isolated", "nohz_full": "/sys/devices/system/cpu/nohz_full"}


class Checklist:
    """The expectations of a checklist in addition to the stored requests of the host."""

    def __init__(
        self,
        *,
        bios: Mapping[str, str],
        layers: Sequence[str],
        units: Mapping[str, str],
        allow_pending_reboot: bool,
        tuned: bool = False,
        services: bool = True,
        memory_bandwidth: bool = True,
    ) -> None:
        """Each of ``layers`` must have a stored request; ``units`` maps systemd units to the CPUs of their threads.

        With ``tuned`` the host must be tuned, and every finding of the drift check becomes an item. With ``services``
        the caller adds the items on instances. With ``memory_bandwidth`` slow memory is wrong, else it is reported
        only. Raises BadRequest for an unknown layer.
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
        self.memory_bandwidth = memory_bandwidth

    def check_host(self, survey: Survey, boot_run: tuple[str | None, str]) -> list[Item]:
        """Return all items in the order of the recipe; ``boot_run`` is the result of read_boot_service_state."""
        host, findings = survey.host, survey.list_findings()
        items = self._run_and_stored_document_items(findings) if self.tuned else []
        view = KernelView(host.fs, host.topology)
        items += bios_settings.check_bios_settings(view, self.bios, only={"nps", "smt", *self.bios})
        memory = build_memory_item(host.memory_speed, self.memory_bandwidth)
        # Everything that is tuned stands on the memory, so slow memory is the first line.
        items.insert(0 if memory.verdict == WRONG else len(items), memory)
        if host.topology.frequency_fault:
            title = "frequencies of the firmware"
            items.insert(0, Item("firmware_frequencies", title, WRONG, host.topology.frequency_fault))
        plan_findings = [finding for finding in findings if finding.addresses[0].startswith(f"{PLAN}:")]
        for name in KNOBS:
            layer_findings = [finding for finding in findings if finding.layer == name and finding not in plan_findings]
            number = sum(verdict.request.partition("/")[0] == name for verdict in survey.verdicts)
            items.append(self._stored_settings_item(name, layer_findings, number, survey.boot_failure))
        items += list_items_on_memory_beside_huge_pages(host.fs)
        items += [_item_from_finding("cpus", "CPUs of the plan", finding) for finding in plan_findings]
        items.append(_compare_isolated_cpus_with_boot(host.fs, survey.verdicts))
        items.append(_item_from_boot_service_state(*boot_run, any(verdict.request for verdict in survey.verdicts)))
        items += [
            unit_threads.check_allowed_cpus_of_unit_threads(host, unit, cpus) for unit, cpus in self.units.items()
        ]
        return [*items, *self._unit_drift_items(findings)] if self.tuned else items

    def _run_and_stored_document_items(self, findings: Sequence[Finding]) -> list[Item]:
        """Return items on a run that did not end, and on wrong stored documents, if there are such findings."""
        boot = [finding for finding in findings if finding.layer == BOOT]
        stored = [finding for finding in boot if finding.addresses[0] not in BOOT_SERVICE_ADDRESSES]
        return [
            *(_item_from_finding("run", "run of site.yml", finding) for finding in findings if finding.layer == RUN),
            *(_item_from_finding("stored", "what is stored", finding) for finding in stored),
        ]

    def _unit_drift_items(self, findings: Sequence[Finding]) -> list[Item]:
        """Return an item for each unit with drift, and without ``services`` the item that instances were left out."""
        units = [finding for finding in findings if finding.layer == LLAMA]
        if self.services:
            units = [finding for finding in units if finding.addresses[0].rpartition("/")[2] not in RUNNING_STATES]
            return [_item_from_finding("units", finding.what, finding) for finding in units]
        # Without requests to instances, a unit that systemd is still starting cannot be judged.
        units = [finding for finding in units if finding.found not in BETWEEN_STATES]
        left_out = "What instances answer, and where they compute (epyc_verify_services is false)."
        return [
            *(_item_from_finding("units", finding.what, finding) for finding in units),
            Item("services", "services", NOT_CHECKED, left_out),
        ]

    def _stored_settings_item(
        self, name: str, findings: Sequence[Finding], count: int, not_at_boot_reason: str
    ) -> Item:
        """Return the item on a kind of setting, of which ``count`` settings are stored."""
        title = KNOBS[name].title
        if not count and not findings:
            nothing = "Nothing is stored for it on this host"
            if name in self.layers:
                return Item(name, title, WRONG, f"{nothing}, but it is required. Run site.yml.")
            return Item(name, title, NOT_CONFIGURED, f"{nothing}.")
        waiting = [finding for finding in findings if finding.pending_reboot and KNOBS[name].needs_reboot]
        others = [finding for finding in findings if finding not in waiting]
        groups = [
            (verdict, [finding for finding in others if _finding_verdict(finding) == verdict])
            for verdict in (WRONG, UNSUPPORTED, UNKNOWN)
        ]
        groups.append((PENDING if self.allow_pending_reboot else WRONG, waiting))
        messages = [
            (verdict, _findings_and_next_steps_message(members, title)) for verdict, members in groups if members
        ]
        if not messages:
            at_boot = "" if not_at_boot_reason else ", and kept over a boot"
            return Item(name, title, OK, f"{count} {format_plural('setting', count)} in force{at_boot}.")
        worst = min((verdict for verdict, dummy in messages), key=(WRONG, UNSUPPORTED, UNKNOWN, PENDING).index)
        return Item(name, title, worst, " ".join(text for dummy, text in messages))


def _item_from_finding(name: str, title: str, finding: Finding) -> Item:
    return Item(name, title, _finding_verdict(finding), _findings_and_next_steps_message([finding], title))


def _finding_verdict(finding: Finding) -> str:
    return finding.status if finding.status in (UNSUPPORTED, UNKNOWN) else WRONG


def _findings_and_next_steps_message(findings: Sequence[Finding], title: str) -> str:
    """Return sentences that name the first findings, count the others, and say what to do about all of them.

    Findings are named without the ``title`` of their item, because the checklist shows the title before the sentences.
    """
    rows = [finding.to_dict() for finding in findings]
    more = f"; and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    named = "; ".join(words.format_finding(row, shown_title=title) for row in rows[:MAX_NAMED])
    return " ".join([f"{named}{more}.", *words.list_next_step_sentences(rows)])


def _compare_isolated_cpus_with_boot(fs: KernelFS, verdicts: Sequence[Verdict]) -> Item:
    """Return the item that compares the isolated CPUs with boot parameters: the kernel ignores some without a word."""
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
            missing = f"There is no {path}, so {parameter} is without effect: this kernel was built without it."
            wrong_sentences.append(missing)
        # The kernel writes "(null)" for no CPUs.
        elif "null" not in isolated and requested <= set(parse_cpulist(isolated.strip())):
            ok_sentences.append(f"{path} holds {isolated}.")
        else:
            wanted_cpus = format_cpulist(requested)
            wrong_sentences.append(f"{path} holds {isolated or 'nothing'}, and {parameter} asks for {wanted_cpus}.")
    kind, cpus = partitions.read_active_partition(fs)
    if kind:
        groups = partitions.list_cpuset_groups_outside_slice(fs, file="cpuset.cpus.effective")
        leaks = [group.name for group in groups if group.cpus & cpus]
        ok_sentences.append(
            f"{partitions.SLICE} is a partition ({kind}) of CPUs {format_cpulist(cpus)}: only its tasks run there, and "
            "threads of the kernel. The timer tick and RCU callbacks are there unless boot parameters keep them off."
        )
        if leaks:
            names = ", ".join(leaks[:MAX_NAMED])
            wrong_sentences.append(f"{names} may run on CPUs of the partition of {partitions.SLICE}.")
    if wrong_sentences:
        return Item(name, title, WRONG, " ".join(wrong_sentences))
    if ok_sentences:
        return Item(name, title, OK, " ".join(ok_sentences))
    pending = {v.address for v in verdicts if v.wanted and v.pending_reboot}
    waiting = [parameter for parameter in ISOLATION_FILES if f"{CMDLINE}{parameter}" in pending]
    if waiting:
        return Item(name, title, PENDING, f"No CPU is isolated yet: a reboot brings {' and '.join(waiting)}.")
    nothing = "Neither a parameter of this boot nor a partition takes CPUs from the scheduler or its tick."
    return Item(name, title, NOT_CONFIGURED, nothing)


def _item_from_boot_service_state(state: str | None, sentence: str, has_stored_settings: bool) -> Item:
    name, title = "boot_service", "boot service"
    if state is None:
        return Item(name, title, UNKNOWN, sentence)
    if state == boot_service.MISSING and not has_stored_settings:
        return Item(name, title, NOT_CONFIGURED, "Nothing is stored on this host that it would apply.", found=state)
    verdicts = {boot_service.DONE: OK, boot_service.IDLE: OK, boot_service.STARTING: UNKNOWN}
    return Item(name, title, verdicts.get(state, WRONG), sentence, found=state)
