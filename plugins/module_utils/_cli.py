# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line on the host: the same engine, without Ansible.

Exit codes: 0 when all is as configured, 2 when a check found drift or something unknown, 1 when something failed.
"""

from __future__ import annotations

import sys

from ._drift import metrics
from ._drift import survey as surveys
from ._errors import TuningError
from ._host import plan_text
from ._host.host import Host
from ._io import textfile as textfiles
from ._io.kernelfs import KernelFS
from ._io.store import Store
from ._knobs.catalogue import KNOBS, all_originals, in_order
from ._knobs.converge import converge
from ._knobs.desired import stored
from ._knobs.irq import events
from ._knobs.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._drift.verdict import Verdict
    from ._knobs.knob import Change

USAGE = """usage: sovereign-epyc COMMAND [--json] [--textfile FILE]

  plan      show which CPUs each role gets on this host under the stored intent
  check     compare every stored setting with the running kernel; changes nothing
  apply     apply every stored setting; the boot service runs this
  watch     move new interrupts to the CPUs that the stored settings name, until it is stopped; a service runs this
  restore   put back everything that was ever changed, and forget the stored settings
  show      list the stored requests, and the originals that restore would put back
  llama     what the units of llama.cpp servers call; alone, it lists its commands

--textfile makes check also write its findings as Prometheus metrics, for the textfile collector of node_exporter.
"""
#: The option that has a value.
TEXTFILE = "--textfile"
#: systemd reads this at the beginning of a line as the priority "error".
ERROR = "<3>"


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if arguments and arguments[0] == "llama":
        # Imported here, because no other command needs it.
        from ._llama.hooks import cli

        return cli.main(arguments[1:])
    words = [word for word in arguments if word != "--json"]
    as_json = len(words) < len(arguments)
    commands = {"plan": plan, "check": check, "apply": apply, "watch": watch, "restore": restore, "show": show}
    try:
        if len(words) == 3 and words[:2] == ["check", TEXTFILE]:
            return check_to_textfile(as_json, words[2])
        if len(words) != 1 or words[0] not in commands:
            sys.stderr.write(USAGE)
            return 1
        return commands[words[0]](as_json)
    except TuningError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def plan(as_json: bool) -> int:
    """Show the plan of the stored intent."""
    host = Host(KernelFS(read_only=True), stored(Store(read_only=True))[0])
    if as_json:
        _say_json({"topology": host.topology.to_dict(), "plan": host.plan.to_dict()})
    else:
        _say(plan_text.render(host.plan, host.topology))
    return 0


def check(as_json: bool) -> int:
    """Print a line for each setting that is not as configured, and a line that counts."""
    return _show(surveys.of_host(KernelFS(read_only=True)).verdicts, as_json)


def check_to_textfile(as_json: bool, textfile: str) -> int:
    """Check, and write metrics; a check that fails writes that too, so that an old file does not look new."""
    try:
        survey = surveys.of_host(KernelFS(read_only=True))
        textfiles.replace(textfile, metrics.of_host(survey.findings(), survey.coverage()))
    except TuningError:
        textfiles.replace(textfile, metrics.of_failure())
        raise
    return _show(survey.verdicts, as_json)


def _show(verdicts: Sequence[Verdict], as_json: bool) -> int:
    wrong = [verdict for verdict in verdicts if not verdict.clean]
    if as_json:
        _say_json({"settings": [verdict.to_dict() for verdict in verdicts]})
    else:
        for verdict in wrong:
            reason = f"; {verdict.reason}" if verdict.reason else ""
            _say(
                f"{verdict.address}: now {verdict.live}, at boot {verdict.persistent}: wanted {_text(verdict.wanted)}, "
                f"found {_text(verdict.found)}{reason}"
            )
        _say(f"{len(verdicts)} settings checked, {len(wrong)} not as configured")
    return 2 if wrong else 0


def apply(as_json: bool) -> int:
    """Apply every stored request."""
    done, failures = _apply()
    _report(done, failures, as_json)
    return 1 if failures else 0


def watch(as_json: bool) -> int:
    """Apply the stored requests for interrupts whenever new ones may have come, and report only what is new."""
    reported: list[str] = []
    for dummy in events.moments():
        done, failures = _apply(only="irq")
        if done or failures != reported:
            _report(done, failures, as_json)
            sys.stdout.flush()
        reported = failures
    return 0


def _apply(only: str | None = None) -> tuple[list[Change], list[str]]:
    """Apply the stored requests, or those of one knob. When one fails, the others are still applied."""
    fs, store = KernelFS(), Store()
    intent, requests = stored(store)
    host, ledger = Host(fs, intent), Ledger(store, fs)
    if only == "irq":
        events.keep_to_housekeeping(host)
    done: list[Change] = []
    failures: list[str] = []
    for name, label, options in in_order(requests):
        if only not in (None, name):
            continue
        try:
            if name not in KNOBS:
                raise TuningError(f"This version of the collection has no knob {name}.")
            outcome = converge(KNOBS[name].build(host, options), ledger)
        except TuningError as error:
            failures.append(f"{name}/{label}: {error}")
            continue
        done += outcome.changes
    return done, failures


def restore(as_json: bool) -> int:
    """Put everything back, and forget what was stored."""
    fs, store = KernelFS(), Store()
    host, ledger = Host(fs), Ledger(store, fs)
    outcome = converge(all_originals(host, ledger), ledger)
    _report(outcome.changes, outcome.remarks, as_json)
    return 1 if outcome.remarks else 0


def show(as_json: bool) -> int:
    """List what is stored."""
    store = Store(read_only=True)
    intent, requests = stored(store)
    originals = Ledger(store, KernelFS(read_only=True)).originals()
    if as_json:
        _say_json({"intent": intent, "requests": requests, "originals": originals})
        return 0
    _say(f"intent: {intent or 'none'}")
    for name, label, options in in_order(requests):
        _say(f"request {name}/{label}: {options}")
    for address, value in sorted(originals.items()):
        _say(f"original {address}: {_text(value)}")
    return 0


def _report(changes: Sequence[Change], failures: Sequence[str], as_json: bool) -> None:
    if as_json:
        rows = [{"address": c.address, "before": c.before, "after": c.after} for c in changes]
        _say_json({"changes": rows, "failures": list(failures)})
        return
    for change in changes:
        _say(f"{change.address}: {_text(change.before)} -> {_text(change.after)}")
    for failure in failures:
        sys.stderr.write(f"{ERROR}{failure}\n")
    _say(f"{len(changes)} settings changed, {len(failures)} requests failed")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _text(value: str | None) -> str:
    return "nothing" if value is None else value or "''"


def _say_json(data: object) -> None:
    import json

    _say(json.dumps(data, indent=1, sort_keys=True))
