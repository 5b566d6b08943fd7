# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of interrupts: the CPUs that each device may interrupt.

Addresses: ``irq:41/affinity`` (a CPU list) and ``irq:default`` (the mask for interrupts that drivers request later).
irqbalance, which sets the affinity too, is a separate knob. Source: Documentation/core-api/irq/irq-affinity.rst and
kernel/irq/proc.c of the Linux kernel.
"""

from __future__ import annotations

import errno

from ..._errors import Absent, BadRequest, Refused
from ..._notation.cpulist import format_cpulist, format_cpumask, parse_cpulist, parse_cpumask
from ..protocol.knob import Knob
from . import interrupts
from .irqbalance import Irqbalance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings, Words
    from .interrupts import Irq

DEFAULT = "irq:default"
DEFAULT_FILE = f"{interrupts.PROC}/default_smp_affinity"

TITLES = {
    "default": "CPUs of interrupts to come",
    "irqbalance/banned_cpus": "CPUs that irqbalance keeps off",
    "irqbalance/service": "service irqbalance",
}


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return irqbalance and the interrupts as knobs; irqbalance is first, so that it does not undo the rest."""

    def parse_allowed_cpus() -> tuple[int, ...]:
        if not options.get("cpus"):
            raise BadRequest("Say which CPUs may be interrupted: cpus, such as housekeeping or 0-3.")
        allowed = host.parse_cpus(options["cpus"])
        if not allowed:
            raise BadRequest("cpus names no CPU, and the kernel leaves no interrupt without one.")
        return allowed

    balance = Irqbalance(host, options.get("irqbalance", "ignore"), parse_allowed_cpus, bool(options.get("spread")))
    return [balance, IrqAffinity(host, options, balance)]


def describe_setting(address_rest: str) -> Words:
    number = address_rest.partition("/")[0]
    return (
        ("CPUs", "interrupt", int(number)) if number.isdecimal() else (TITLES.get(address_rest, address_rest), "", None)
    )


class IrqAffinity(Knob):
    """The affinity of each movable interrupt, and the default for interrupts that drivers request later."""

    prefix = "irq"

    def __init__(self, host: Host, options: Mapping[str, Any], balance: Irqbalance) -> None:
        self.host = host
        self.fs = host.fs
        self.options = options
        self.balance = balance
        self._irqs: list[Irq] = []
        self._managed: list[Irq] = []
        self._unmet: list[str] = []
        #: Addresses of interrupts that vanished or turned out to be managed when they were written.
        self._left: set[str] = set()
        self._wrote = False
        self._wanted: Settings = {}

    def owns_address(self, address: str) -> bool:
        return super().owns_address(address) and not self.balance.owns_address(address)

    def wanted_settings(self) -> Settings:
        """Return the wanted affinity of each movable interrupt of the request."""
        cpus = self.balance.cpus()
        which = self.options.get("which", ["all"])
        matched, self._unmet = interrupts.select_irqs(self.fs, interrupts.read_irqs_with_driver(self.fs), which)
        modes_show_it = interrupts.file_modes_show_movability(self.fs)
        may_move = {irq.number: interrupts.is_movable(self.fs, irq.number, modes_show_it) for irq in matched}
        self._managed = [irq for irq in matched if may_move[irq.number] is False]
        self._irqs = [irq for irq in matched if may_move[irq.number]]
        if self.options.get("spread"):
            present = {irq.number: self._read_cpus(irq.number, "smp_affinity_list") for irq in self._irqs}
            places = {number: str(cpu) for number, cpu in interrupts.assign_irqs_to_cpus(present, cpus).items()}
        else:
            places = dict.fromkeys((irq.number for irq in self._irqs), format_cpulist(cpus))
        self._wanted = {f"irq:{number}/affinity": place for number, place in places.items()}
        if self.options.get("default"):
            possible = parse_cpulist(self.fs.read("/sys/devices/system/cpu/possible"))
            self._wanted[DEFAULT] = format_cpumask(cpus, possible[-1] + 1)
        return dict(self._wanted)

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the affinity that was written last; the CPU in use is in effective_affinity_list."""
        return {address: self.fs.read_if_present(_file_of_address(address)) for address in addresses}

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values name the same CPUs; with irqbalance, a part of the wanted CPUs is enough."""
        if address in self._left or wanted == found:
            return True
        if wanted is None or found is None:
            # An interrupt that vanished needs no affinity.
            return address != DEFAULT
        if address == DEFAULT:
            return parse_cpumask(wanted) == parse_cpumask(found)
        present_cpus, wanted_cpus = parse_cpulist(found), parse_cpulist(wanted)
        if self.balance.mode == "ban" and self.balance.is_running and present_cpus:
            return set(present_cpus) <= set(wanted_cpus)
        return present_cpus == wanted_cpus

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if an interrupt has vanished or cannot be moved, else None."""
        if address == DEFAULT:
            return None
        may_move = interrupts.is_movable(self.fs, _irq_of_address(address))
        if may_move is None:
            return f"interrupt {_irq_of_address(address)} is not there any more"
        return None if may_move else f"the kernel alone places interrupt {_irq_of_address(address)}"

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return nothing, because the original of a vanished interrupt is not needed later."""
        return {}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write the default first, which holds for interrupts that appear meanwhile, then each interrupt."""
        self._wrote = True
        for change in sorted(changes, key=lambda change: change.address != DEFAULT):
            if change.after is None:
                continue
            try:
                self.fs.write(_file_of_address(change.address), f"{change.after}\n")
            except Absent:
                self._left.add(change.address)
            except Refused as error:
                self._explain_or_skip_refused_irq(change, error)

    def list_remarks(self) -> list[str]:
        """Return remarks on words and interrupts without an effect, and on interrupts that have not moved."""
        remarks = [
            f"'{word}' names no interrupt of this host now; a driver may request one later." for word in self._unmet
        ]
        if self._managed and not self._irqs:
            remarks.append(
                f"The kernel alone places every interrupt that was named: {interrupts.format_irqs(self._managed)}. "
                "Only the boot parameter isolcpus=managed_irq keeps those off CPUs."
            )
        # Finding pending interrupts reads two files for each, which a run without writes can do without.
        pending = self._find_irqs_at_old_cpu() if self._wrote else []
        if pending:
            remarks.append(
                f"Still at their old place, which is usual until the next interrupt comes: "
                f"{interrupts.format_irqs(pending)}. An interrupt that comes and stays there found no free vector on "
                "the wanted CPUs."
            )
        return remarks

    def module_facts(self) -> dict[str, object]:
        """Return the interrupts of the request: movable ones, managed ones, and those at their old place."""
        return {
            "movable": [{**irq.to_dict(), "cpus": self._wanted[f"irq:{irq.number}/affinity"]} for irq in self._irqs],
            "managed": [
                {**irq.to_dict(), "cpus": format_cpulist(self._read_cpus(irq.number, "smp_affinity_list"))}
                for irq in self._managed
            ],
            "pending": [irq.number for irq in self._find_irqs_at_old_cpu()],
        }

    def _read_cpus(self, number: int, file: str) -> tuple[int, ...]:
        return parse_cpulist(self.fs.read_if_present(f"{interrupts.PROC}/{number}/{file}") or "")

    def _find_irqs_at_old_cpu(self) -> list[Irq]:
        """Return interrupts whose CPU in use is not among the wanted ones that the kernel accepted."""
        pending = []
        for irq in self._irqs:
            accepted = set(self._read_cpus(irq.number, "smp_affinity_list"))
            wanted = set(parse_cpulist(self._wanted[f"irq:{irq.number}/affinity"] or ""))
            in_use = set(self._read_cpus(irq.number, "effective_affinity_list"))
            # In check mode the kernel has the old affinity, so the interrupt is not pending.
            if accepted <= wanted and not in_use <= wanted:
                pending.append(irq)
        return pending

    def _explain_or_skip_refused_irq(self, change: Change, error: Refused) -> None:
        """Skip an interrupt that turns out to be managed; for any other refusal, raise Refused with the reason."""
        if change.address != DEFAULT and error.errno in interrupts.NOT_MOVABLE:
            self._left.add(change.address)
            number = _irq_of_address(change.address)
            self._managed += [irq for irq in self._irqs if irq.number == number]
            self._irqs = [irq for irq in self._irqs if irq.number != number]
            return
        if error.errno == errno.ENOSPC:
            raise Refused(
                f"Interrupt {_irq_of_address(change.address)} does not fit on CPU {change.after}: a CPU has about 200 "
                "vectors for interrupts, and those are all taken. Name more CPUs, or have drivers use fewer queues.",
                error.errno,
                error.path,
            ) from None
        raise error


def _irq_of_address(address: str) -> int:
    return int(address[len("irq:") :].partition("/")[0])


def _file_of_address(address: str) -> str:
    return DEFAULT_FILE if address == DEFAULT else f"{interrupts.PROC}/{_irq_of_address(address)}/smp_affinity_list"
