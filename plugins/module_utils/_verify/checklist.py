# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a tuned host: one item per layer of settings, and the things that no single setting shows.

It uses the verdicts of _drift/judge.py, so it judges what the kernel shows now, not what was once written.
"""

from __future__ import annotations

from .._drift.judge import away, waits
from .._drift.verdict import CHANGE_WHAT_IS_ASKED, DRIFT, has_place
from .._errors import BadRequest
from .._io.paths import WAITS
from .._kernel import partitions
from .._knobs.boot.knob import PREFIX as CMDLINE
from .._knobs.boot.request import ISOLCPUS_FLAGS
from .._knobs.catalogue import KNOBS
from .._notation import cpulist
from . import boot_service, unit_threads
from .bios import check as bios_settings
from .bios.setting import Look
from .items import OK, PENDING, UNASKED, UNKNOWN, UNSUPPORTED, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._drift.verdict import Verdict
    from .._host.host import Host
    from .._io.kernelfs import KernelFS

#: How many addresses a sentence names; it counts the others.
NAMED = 3
REPAIR = "Run site.yml again, or 'sovereign-epyc apply' on the host."
REBOOT = "Run reboot.yml."
AGAIN = "Mend that, and look again."
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
    ) -> None:
        """Each of ``layers`` must have a stored request; ``units`` maps systemd units to the CPUs of their threads.

        Raises BadRequest for an unknown layer.
        """
        unknown = [name for name in layers if name not in KNOBS]
        if unknown:
            raise BadRequest(f"layers: there is no knob {', '.join(unknown)}; say some of {', '.join(KNOBS)}.")
        self.bios = bios
        self.layers = layers
        self.units = units
        self.allow_pending_reboot = allow_pending_reboot

    def check(self, host: Host, verdicts: Sequence[Verdict], boot_run: tuple[str | None, str]) -> list[Item]:
        """Return all items, in the order of the recipe. ``boot_run`` is the state that the boot service had first."""
        items = bios_settings.check(Look(host.fs, host.topology), self.bios, only={"nps", "smt", *self.bios})
        items += [self._layer(name, [v for v in verdicts if v.request.split("/")[0] == name]) for name in KNOBS]
        items += [Item("cpus", "CPUs of the plan", WRONG, verdict.reason) for verdict in away(host)]
        items.append(_isolation(host.fs, verdicts))
        items.append(_service(*boot_run, bool(verdicts)))
        items += [unit_threads.check(host, unit, cpus) for unit, cpus in self.units.items()]
        return items

    def _layer(self, name: str, verdicts: Sequence[Verdict]) -> Item:
        title = KNOBS[name].title
        if not verdicts:
            if name in self.layers:
                return Item(
                    name, title, WRONG, "Nothing is stored for it on this host, but it is required. Run site.yml."
                )
            return Item(name, title, UNASKED, "Nothing is stored for it on this host.")
        told = [
            (word, f"{_named([sentence(verdict) for verdict in members])} {advice}")
            for word, advice, members in (
                (WRONG, REPAIR, [v for v in verdicts if _differs(v) and not waits(v)]),
                (UNSUPPORTED, CHANGE_WHAT_IS_ASKED, [v for v in verdicts if not v.supported]),
                (UNKNOWN, AGAIN, [v for v in verdicts if v.supported and not v.clean and not _differs(v)]),
                (PENDING if self.allow_pending_reboot else WRONG, REBOOT, [v for v in verdicts if waits(v)]),
            )
            if members
        ]
        if not told:
            return Item(name, title, OK, f"{_count(len(verdicts))} in force, and kept over a boot.")
        worst = min((word for word, dummy in told), key=(WRONG, UNSUPPORTED, UNKNOWN, PENDING).index)
        return Item(name, title, worst, " ".join(text for dummy, text in told))


def sentence(verdict: Verdict) -> str:
    """Return what is wrong with one setting, or with all of a layer, without a full stop at the end."""
    reason = verdict.reason.rstrip(".")
    if not verdict.supported:
        return f"Not supported here: {reason}"
    if not has_place(verdict.address):
        return f"Unknown: {reason}"
    if UNKNOWN in (verdict.live, verdict.persistent):
        return f"{verdict.address} is unknown: {reason}"
    wanted, found = _text(verdict.wanted), _text(verdict.found)
    if waits(verdict):
        return f"{verdict.address} is {found} and should be {wanted}, which waits for a reboot"
    if verdict.live == OK:
        reason = verdict.reason or "the next boot is configured otherwise"
        return f"{verdict.address} is {found} as configured, but will not be after a boot: {reason}"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.address} is {found} and should be {wanted}{reason}"


def _differs(verdict: Verdict) -> bool:
    return DRIFT in (verdict.live, verdict.persistent)


def _named(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - NAMED} more" if len(sentences) > NAMED else ""
    return f"{'; '.join(sentences[:NAMED])}{more}."


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
        words = (wanted.get(parameter) or "").split(",")
        flags = [word for word in words if word in ISOLCPUS_FLAGS]
        if not words[0] or (parameter == "isolcpus" and flags and "domain" not in flags):
            continue
        last = cpulist.parse(fs.read("/sys/devices/system/cpu/present"))[-1]
        asked = set(cpulist.parse_bitmap(",".join(word for word in words if word not in flags), last))
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
