# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Items of the checklist about the RPC worker of a host: it runs, with the program of the plan, where it was planned.

Work comes to it from another host only, so that busy threads cannot be proven here; the CPUs that its threads may run
on, and the nodes of its memory, can.
"""

from __future__ import annotations

from ..._drift.next_step import advise_on_unit
from ..._errors import TuningError
from ..._knobs.managed_units import read_unit_properties
from ..._verify.checklist_items import OK, UNKNOWN, WRONG, Item
from ..._verify.placement.watch import ServiceWatch
from ..options.unit_names import WORKER_UNIT as UNIT
from ..unit import installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host

NAME = "rpc-worker"
REPAIR = "Run group.yml."


def items(host: Host, clock: Any) -> list[Item]:
    """Return the items of the worker; none where there is none."""
    there, plan = installed.read_rpc_worker(host.fs.root)
    if not there:
        return []
    if plan is None:
        return [_item("service", UNKNOWN, f"{UNIT} carries no plan, or a part of one. {REPAIR}")]
    runs = _runs(plan)
    return [
        runs,
        _placement(host, plan, clock) if runs.found == "active" else _item("placement", UNKNOWN, "It is down."),
    ]


def _item(kind: str, verdict: str, sentence: str, found: str | None = None) -> Item:
    return Item(f"{kind}/{NAME}", f"{kind} of {NAME}", verdict, sentence, found=found)


def _runs(plan: Mapping[str, Any]) -> Item:
    try:
        word = read_unit_properties([UNIT]).get(UNIT, {}).get("ActiveState", "unknown to systemd")
    except TuningError as error:
        return _item("service", UNKNOWN, str(error))
    if word != "active":
        return _item(
            "service",
            WRONG,
            f"{UNIT} is {word}, so that the server that uses it is down too. {advise_on_unit(UNIT)}",
            word,
        )
    other = installed.changed_files(plan["programs"])
    if other:
        sentence = f"{other[0]} was replaced or removed since {UNIT} was planned. {REPAIR}"
        return _item("service", WRONG, sentence, word)
    return _item("service", OK, f"{UNIT} is active at {plan['address']}.", word)


def _placement(host: Host, plan: Mapping[str, Any], clock: Any) -> Item:
    asked = {"service": UNIT, **{key: plan["expect"][key] for key in ("cpus", "nodes")}}
    try:
        proof: Any = ServiceWatch(host, asked, clock).sample_now()
    except TuningError as error:
        return _item("placement", UNKNOWN, f"Not known: {error}")
    verdicts = proof["verdicts"]
    wrong = [one for one in verdicts if one["verdict"] not in (OK, UNKNOWN)]
    unknown = [one for one in verdicts if one["verdict"] == UNKNOWN]
    sentence = " ".join(dict.fromkeys(one["sentence"] for one in wrong or unknown or verdicts))
    if wrong:
        return _item("placement", WRONG, f"{sentence} {REPAIR}")
    return _item("placement", UNKNOWN if unknown else OK, sentence)
