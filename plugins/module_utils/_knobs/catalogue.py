# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every knob by name, in the order in which they are applied: what takes CPUs away or brings them comes first.

Adding a knob means adding its file, its module, and here a function and a line. The functions import a knob's file when
it is wanted, because loading all of them takes half as long as all that Ansible does on the host.
"""

from __future__ import annotations

from .desired import Desired, stored
from .ledger import Original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .knob import Knob
    from .ledger import Ledger

    Build = Callable[[Host, Mapping[str, Any]], Sequence[Knob]]


def _sysfs(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .sysfs import build

    return build(host, options)


def _hugepages(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .hugepages.knob import build

    return build(host, options)


def _resctrl(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .resctrl.knob import build

    return build(host, options)


def _cpufreq(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .cpufreq.knob import build

    return build(host, options)


def _msr(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .msr.knob import build

    return build(host, options)


def _irq(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .irq.knob import build

    return build(host, options)


def _cmdline(host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
    from .boot.knob import build

    return build(host, options)


KNOBS: dict[str, Build] = {
    "sysfs": _sysfs,
    "hugepages": _hugepages,
    "resctrl": _resctrl,
    "cpufreq": _cpufreq,
    "msr": _msr,
    "irq": _irq,
    "cmdline": _cmdline,
}


def in_order(requests: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return requests by "KNOB/LABEL" as (knob, label, options), in the order to apply them."""
    names = list(KNOBS)
    rows = [(key.partition("/")[0], key.partition("/")[2], options) for key, options in requests.items()]
    return sorted(rows, key=lambda row: (names.index(row[0]) if row[0] in KNOBS else len(names), row[1]))


def all_originals(host: Host, ledger: Ledger) -> list[Knob]:
    """Return knobs that want back everything that the ledger remembers, and nothing stored for the next boot.

    SMT comes first here too, so that all CPUs are there; the others go in the opposite order, because a later one may
    have changed what an earlier one had made, as msr can with the boost of cpufreq.
    """
    order = ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]
    originals = [Original(knob, ledger) for name in order for knob in reversed(KNOBS[name](host, {}))]
    return [*originals, Desired(ledger.store, dict.fromkeys(["intent", *stored(ledger.store)[1]]))]
