# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a tuned host: one item per layer of settings, and the things that no single setting shows.

It uses the findings of a check, as the drift report does, so it judges what the kernel shows now, not what was once
written.
"""

from __future__ import annotations

from .._drift import words
from .._drift.findings import BOOT, LLAMA, RUN, SERVICE_ENABLED
from .._drift.judge import waits
from .._drift.verdict import PLAN
from .._errors import BadRequest
from .._io.paths import SERVICE, WAITS
from .._kernel import partitions
from .._knobs.boot.knob import PREFIX as CMDLINE
from .._knobs.boot.request import ISOLCPUS_FLAGS
from .._knobs.catalogue import KNOBS
from .._knobs.units import BETWEEN_STATES
from .._notation import cpulist
from . import boot_service, unit_threads
from .bios import check as bios_settings
from .bios.setting import Look
from .items import OK, PENDING, UNASKED, UNKNOWN, UNSEEN, UNSUPPORTED, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._drift.findings import Finding
    from .._drift.survey import Survey
    from .._drift.verdict import Verdict
    from .._io.kernelfs import KernelFS

#: How many findings a sentence names; it counts the others.
NAMED = 3
#: Addresses of findings that the item on the boot service is about.
OF_BOOT_SERVICE = (f"boot:{SERVICE}", SERVICE_ENABLED)
#: The last word of the addresses of what the items on a running service are about, too.
OF_SERVICE = ("active", "loaded")
#: Boot parameter -> the file in which the kernel shows the CPUs that it is in force for.
ISOLATION = {"isolcpus": "/sys/devices/system/cpu/isolated", "nohz_full": "/sys/devices/system/cpu/nohz_full"}


class Checklist:
    """What is expected of a host beside its stored requests."""

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

        ``tuned`` says that the host must be tuned, so that every finding of a check is an item. ``services`` says that
        others look at what instances do. Raises BadRequest for an unknown layer.
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

    def check(self, survey: Survey, boot_run: tuple[str | None, str]) -> list[Item]:
        """Return all items, in the order of the recipe. ``boot_run`` is the state that the boot service had first."""
        host, found = survey.host, survey.findings()
        items = self._of_host(found) if self.tuned else []
        items += bios_settings.check(Look(host.fs, host.topology), self.bios, only={"nps", "smt", *self.bios})
        for name in KNOBS:
            mine = [one for one in found if one.layer == name and not _is_plan(one)]
            number = sum(verdict.request.partition("/")[0] == name for verdict in survey.verdicts)
            items.append(self._layer(name, mine, number, survey.boot))
        items += [Item("cpus", "CPUs of the plan", WRONG, _line([one])) for one in found if _is_plan(one)]
        items.append(_isolation(host.fs, survey.verdicts))
        items.append(_service(*boot_run, any(verdict.request for verdict in survey.verdicts)))
        items += [unit_threads.check(host, unit, cpus) for unit, cpus in self.units.items()]
        return [*items, *self._of_units(found)] if self.tuned else items

    def _of_host(self, found: Sequence[Finding]) -> list[Item]:
        """Return the items on a run that did not end, and on what is stored; none where all is as it should be."""
        stored = [one for one in found if one.layer == BOOT and one.addresses[0] not in OF_BOOT_SERVICE]
        items = [Item("run", "run of site.yml", WRONG, _line([one])) for one in found if one.layer == RUN]
        return [*items, *(Item("stored", "what is stored", _word(one), _line([one])) for one in stored)]

    def _of_units(self, found: Sequence[Finding]) -> list[Item]:
        """Return the items on units of llama.cpp that are not as they were written, and on services left out."""
        units = [one for one in found if one.layer == LLAMA]
        if self.services:
            units = [one for one in units if one.addresses[0].rpartition("/")[2] not in OF_SERVICE]
            return [_unit_item(one) for one in units]
        left_out = "What instances answer, and where they compute (verify_services is false)."
        return [
            # Whether a unit that is being started will serve is for those who look at services.
            *(_unit_item(one) for one in units if one.found not in BETWEEN_STATES),
            Item("services", "services", UNSEEN, left_out),
        ]

    def _layer(self, name: str, found: Sequence[Finding], number: int, boot: str) -> Item:
        """Return the item on a layer with this number of settings; ``boot`` is why nothing is applied at a boot."""
        title = KNOBS[name].title
        if not number and not found:
            if name in self.layers:
                return Item(
                    name, title, WRONG, "Nothing is stored for it on this host, but it is required. Run site.yml."
                )
            return Item(name, title, UNASKED, "Nothing is stored for it on this host.")
        waiting = [one for one in found if one.pending_reboot and KNOBS[name].needs_reboot]
        others = [one for one in found if one not in waiting]
        groups = [(word, [one for one in others if _word(one) == word]) for word in (WRONG, UNSUPPORTED, UNKNOWN)]
        groups.append((PENDING if self.allow_pending_reboot else WRONG, waiting))
        # What is about the whole layer begins with its title, which the item has already.
        told = [(word, _line(members, title)) for word, members in groups if members]
        if not told:
            return Item(name, title, OK, f"{_count(number)} in force{'' if boot else ', and kept over a boot'}.")
        worst = min((word for word, dummy in told), key=(WRONG, UNSUPPORTED, UNKNOWN, PENDING).index)
        return Item(name, title, worst, " ".join(text for dummy, text in told))


def describe_waiting(verdict: Verdict) -> str:
    """Return in a sentence that a boot parameter waits for a reboot, without a full stop at its end."""
    wanted, found = _text(verdict.wanted), _text(verdict.found)
    return f"{verdict.address} is {found} and should be {wanted}, which waits for a reboot"


def waiting(verdicts: Sequence[Verdict]) -> list[str]:
    """Return in sentences which boot parameters wait for a reboot."""
    return [describe_waiting(verdict) for verdict in verdicts if waits(verdict)]


def _is_plan(finding: Finding) -> bool:
    """Return whether a finding is about the CPUs of a role, which are offline."""
    return finding.addresses[0].startswith(f"{PLAN}:")


def _unit_item(finding: Finding) -> Item:
    return Item("units", finding.what, _word(finding), _line([finding], finding.what))


def _word(finding: Finding) -> str:
    """Return the verdict of an item about a finding."""
    return finding.status if finding.status in (UNSUPPORTED, UNKNOWN) else WRONG


def _line(found: Sequence[Finding], title: str = "") -> str:
    """Return findings in sentences, the first ones named and the others counted, with what to do about them.

    The ``title`` of the item stands before the sentence already, so the sentence does not begin with it.
    """
    rows = [one.to_dict() for one in found]
    more = f"; and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    named = "; ".join(map(words.sentence, rows[:NAMED])).removeprefix(f"{title}: ")
    return " ".join([f"{named}{more}.", *words.instructions(rows)])


def _text(value: str | None) -> str:
    return "nothing" if value is None else value or "a flag without a value"


def _count(number: int) -> str:
    return f"{number} setting{'' if number == 1 else 's'}"


def _isolation(fs: KernelFS, verdicts: Sequence[Verdict]) -> Item:
    """Compare the CPUs that the kernel isolated with its parameters: it silently ignores what it cannot do."""
    name, title = "isolation", "isolated CPUs"
    wanted = {v.address[len(CMDLINE) :]: v.wanted for v in verdicts if v.address.startswith(CMDLINE) and v.live == OK}
    good, bad = [], []
    for parameter, path in ISOLATION.items():
        parts = (wanted.get(parameter) or "").split(",")
        flags = [part for part in parts if part in ISOLCPUS_FLAGS]
        if not parts[0] or (parameter == "isolcpus" and flags and "domain" not in flags):
            continue
        last = cpulist.parse(fs.read("/sys/devices/system/cpu/present"))[-1]
        asked = set(cpulist.parse_bitmap(",".join(part for part in parts if part not in flags), last))
        found = fs.find(path)
        if found is None:
            bad.append(f"There is no {path}, so {parameter} is without effect: this kernel was built without it.")
        elif "null" not in found and asked <= set(cpulist.parse(found.strip())):  # "(null)" is the kernel's "none"
            good.append(f"{path} holds {found}.")
        else:
            bad.append(f"{path} holds {found or 'nothing'}, and {parameter} asks for {cpulist.render(asked)}.")
    kind, cpus = partitions.valid(fs)
    if kind:
        leaks = [one.name for one in partitions.others(fs, file="cpuset.cpus.effective") if one.cpus & cpus]
        good.append(
            f"{partitions.SLICE} is a partition ({kind}) of CPUs {cpulist.render(cpus)}: only its tasks run there, and "
            "threads of the kernel. The timer tick and RCU callbacks are there unless boot parameters keep them off."
        )
        if leaks:
            bad.append(f"{', '.join(leaks[:NAMED])} may run on CPUs of the partition of {partitions.SLICE}.")
    if bad:
        return Item(name, title, WRONG, " ".join(bad))
    if good:
        return Item(name, title, OK, " ".join(good))
    return Item(
        name,
        title,
        UNASKED,
        "Neither a parameter of this boot nor a partition takes CPUs from the scheduler or its tick.",
    )


def taken_back(fs: KernelFS, verdicts: Sequence[Verdict]) -> list[str]:
    """Return in sentences which boot parameters an undo took back and the running kernel still has."""
    asked = {verdict.address for verdict in verdicts}
    names = (fs.find(WAITS) or "").split()
    return [f"{CMDLINE}{name} was put back, which waits for a reboot" for name in names if CMDLINE + name not in asked]


def _service(word: str | None, sentence: str, needed: bool) -> Item:
    name, title = "boot_service", "boot service"
    if word is None:
        return Item(name, title, UNKNOWN, sentence)
    if word == boot_service.MISSING and not needed:
        return Item(name, title, UNASKED, "Nothing is stored on this host that it would apply.", found=word)
    verdicts = {boot_service.DONE: OK, boot_service.IDLE: OK, boot_service.STARTING: UNKNOWN}
    return Item(name, title, verdicts.get(word, WRONG), sentence, found=word)
