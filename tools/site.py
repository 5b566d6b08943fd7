#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the whole product on a virtual EPYC: tunes, reboots and verifies the machine, and asks its model a question.

    site.py SKU                  run all steps, or only ask the model of a machine that is tuned already
    site.py SKU --up             boot the tuned machine that was switched off
    site.py SKU --ask PROMPT     only ask the model of a running machine
    site.py SKU --record PAGE    run all steps, and write their titles and the answer into a block of a page

With `--kernel` the machine has another kernel of the lab, such as `backports`, the newest one that Debian 13 offers.

A step that fails ends the run with its exit code. At the end the times of all steps are printed, and then what was done
and the next commands. The program needs the folder lab in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import shlex
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vepyc import SHAPES, Machine, VepycError
from vepyc.figures import Bar, Figures
from vepyc.images.guest_system import RELEASES, get_release
from vepyc.llama.delivery import BACKGROUND_PREFIX
from vepyc.machine.run_directory import RunDirectory
from vepyc.machine.saved_states import snapshot_dir
from vepyc.paths import state_directory
from vepyc.playbook_runs import collection_digest

ROOT = Path(__file__).resolve().parents[1]
#: Seconds without output after which a line says which step is running.
SILENCE = 15
#: The answer repeats the prompt, so that a server that drafts tokens from the prompt has something to draft. The small
#: model answers little else correctly.
PROMPT = "Write this line twice: The river runs past seven old mills, under a stone bridge."
#: The line in a page above the block that `--record` writes.
RECORDED = "<!-- `make record` writes this block -->"
EMULATED = "The processor of this machine is emulated: its speed says nothing about that of a real EPYC."
#: The share of a cold run, in percent, that may pass before the first task runs in the guest.
SHARE = Bar("<=", 30)
COLD, WARM = "cold", "warm"
#: The kernel of the machine unless another one is named.
KERNEL = "6.12"
BOOT = "boot a virtual EPYC"
#: A command that does not need tools/run.sh.
VEPYC = "lab/bin/vepyc"


@dataclass(frozen=True)
class Step:
    """A command, and its usual time on two cores."""

    command: list[str]
    usual: str
    #: Whether each line of output says what the command does next.
    announces: bool = False


@dataclass(frozen=True)
class Done:
    """The result of a command: exit code, output, seconds, and the seconds until its first task of a playbook."""

    code: int
    output: str
    seconds: float
    seconds_to_first_task: float | None


def playbook_command(sku: str, name: str, *variables: str) -> list[str]:
    """Return the command of a playbook."""
    return ["ansible-playbook", f"playbooks/{name}.yml", "-l", sku, *variables]


def next_commands_for_user(sku: str) -> dict[str, str]:
    """Return commands that a user may run with the tuned machine, by purpose."""
    playbook = "tools/run.sh ansible-playbook -i inventories/lab playbooks/drift.yml"
    return {"Ask it yourself": f"make ask SKU={sku} PROMPT='...'", "Run any playbook on it": f"{playbook} -l {sku}"}


def print_next_commands(sku: str) -> None:
    """Print a line for each command that a user may run next with the tuned machine."""
    for purpose, command in next_commands_for_user(sku).items():
        print(f"{purpose}: {command}")


def ask_model_step(sku: str, prompt: str, guesses: bool = False) -> Step:
    """Return the step that asks the model; an emulated CPU takes 1 to 12 seconds for each token.

    With fewer tokens the thread for HTTP would work nearly as much as a computing thread, and would count as busy.
    """
    variables = {"epyc_ask_prompt": prompt, "epyc_ask_tokens": 32, "epyc_ask_timeout": 900, "epyc_ask_guesses": guesses}
    return Step(
        playbook_command(sku, "ask", "-e", json.dumps(variables)),
        "1 to 8 minutes, 1 to 12 s for each token of question and answer",
    )


def boot_step(sku: str, kernel: str = KERNEL) -> Step:
    """Return the step that boots a stopped machine from its disk, or a new machine with this kernel."""
    run_dir = RunDirectory.of_machine(sku)
    tuned = run_dir.has_bootable_disk() and tuned_mark_path(sku).exists()
    if tuned or run_dir.stopped.exists():
        return Step([VEPYC, "start", sku, "--llama"], "40 to 120 s", announces=True)
    options = ["--llama"] if kernel == KERNEL else ["--llama", "--kernel", kernel]
    return Step([VEPYC, "up", sku, *options], "20 s, the first time 2 to 4 minutes", announces=True)


def list_steps(sku: str, kernel: str = KERNEL) -> dict[str, Step]:
    """Return all steps in their order, by title."""
    return {
        BOOT: boot_step(sku, kernel),
        "tune it, and start the service": Step(playbook_command(sku, "site"), "1 to 2 minutes"),
        "reboot it": Step(playbook_command(sku, "reboot", "-e", "epyc_reboot_ok=true"), "1 to 2 minutes"),
        "go through the checklist": Step(playbook_command(sku, "verify"), "5 to 15 s"),
        "show that a second run changes nothing": Step(
            ["tools/expect_unchanged.py", "playbooks/site.yml", "-l", sku], "30 to 60 s"
        ),
        "show the plan": Step(playbook_command(sku, "plan"), "5 s"),
        "ask the service": ask_model_step(sku, PROMPT, guesses=True),
    }


def run_step(step: Step, title: str) -> Done:
    """Run a step and print its output; while the step is silent, print its title and its usual time."""
    output = b""
    begun = time.monotonic()
    first_task = None
    running = subprocess.Popen(
        step.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert running.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(running.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(SILENCE):
                print(waiting_line(step, title, time.monotonic() - begun, output.decode(errors="replace")), flush=True)
                continue
            text = os.read(running.stdout.fileno(), 1 << 16)
            if not text:
                code = running.wait()
                return Done(code, output.decode(errors="replace"), time.monotonic() - begun, first_task)
            output += text
            if first_task is None and b"TASK [" in output:
                first_task = time.monotonic() - begun
            os.write(sys.stdout.fileno(), text)


def waiting_line(step: Step, title: str, seconds: float, output: str) -> str:
    """Return the line for a silent step: its seconds so far, its usual time, and the last line that it announced."""
    line = f"... {title}: {seconds:.0f} s; usually {step.usual}"
    lines = [text for text in output.split("\n") if text and not text.startswith(BACKGROUND_PREFIX)]
    last = lines[-1] if step.announces and lines else ""
    return f"{line}; now {re.sub(r'; log: [^)]*', '', last)}" if last else line


def tuned_mark_path(sku: str) -> Path:
    """Return the path of the file with the digest of the collection that has tuned a machine completely."""
    return RunDirectory.of_machine(sku).path / "tuned"


def is_tuned(sku: str) -> bool:
    """Return whether a machine runs, this collection has tuned it completely, and all its settings are in force."""
    mark = tuned_mark_path(sku)
    if not RunDirectory.of_machine(sku).is_alive() or not mark.exists() or mark.read_text() != collection_digest():
        return False
    try:
        return Machine.find_running(sku).run("sovereign-epyc check", check=False).returncode == 0
    except VepycError:
        return False


def render_summary(titles: list[str], output: str) -> str:
    """Return the titles of all steps and the message of the last step, with lines short enough for a page."""
    lines = [f"[{number}/{len(titles)}] {title}" for number, title in enumerate(titles, 1)]
    shown = textwrap.dedent(output.partition("msg: |-\n")[2].partition("\nTASK ")[0]).strip()
    for line in shown.splitlines():
        lines += textwrap.wrap(line, 110, subsequent_indent=" " * 9) or [""]
    return "\n".join(lines)


def replace_recorded_block(page: Path, text: str) -> None:
    """Replace the recorded block of a page."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(RECORDED)
    if not begin:
        raise SystemExit(f"{page} has no line {RECORDED!r}, so there is no place for what was said")
    tail = rest.partition("```text\n")[2].partition("```\n")[2]
    page.write_text(f"{head}{begin}\n\n```text\n{text}\n```\n{tail}", encoding="utf-8")


def cold_or_warm_run(sku: str, kernel: str) -> str:
    """Return COLD if the machine has to boot for the first time, otherwise WARM."""
    known = sku in SHAPES and (
        RunDirectory.of_machine(sku).path.exists() or snapshot_dir(SHAPES[sku], get_release(kernel)).exists()
    )
    return WARM if known else COLD


def percent_before_first_task(seconds: dict[str, float]) -> float:
    """Return the percentage of a run that passed before the first task ran in the guest."""
    return 100 * seconds["before"] / (seconds["before"] + seconds["after"])


def print_and_save_times(kind: str, seconds: dict[str, float]) -> None:
    """Print the times before and after the first task in the guest, of this run and the last run of the other kind."""
    file = state_directory() / "site-seconds.json"
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    known[kind] = seconds
    file.write_text(json.dumps(known) + "\n")
    print("\n      before the first task in the guest   after it   in all   share before")
    for name in (COLD, WARM):
        if name not in known:
            print(f"{name}  no such run yet")
            continue
        before, after = known[name]["before"], known[name]["after"]
        whose = "this run" if name == kind else "an earlier run"
        share = percent_before_first_task(known[name])
        print(f"{name}{before:35.0f} s {after:8.0f} s {before + after:6.0f} s {share:12.0f} %  {whose}")
    Figures().print_figure("site_share_before_first_task", percent_before_first_task(seconds), "%", SHARE)


def other_kernel_message(sku: str, kernel: str) -> str:
    """Return why there cannot be a machine with this kernel: there is one with another; an empty text if it can be."""
    run_dir = RunDirectory.of_machine(sku)
    if not (run_dir.is_alive() or run_dir.has_bootable_disk()):
        return ""
    present = run_dir.read_config().kernel
    if present == kernel:
        return ""
    return (
        f"site: the machine {sku} has kernel {present}, and was left as it is. End it and throw its disk away:"
        f" lab/bin/vepyc down {sku}; or go on with it: make site SKU={sku} KERNEL={present}"
    )


def run_all_steps(sku: str, kernel: str, begun: float, page: Path | None) -> int:
    """Run all steps on a machine, and print the time of each; return the exit code. ``begun`` is in seconds of Unix."""
    kind = cold_or_warm_run(sku, kernel)
    seconds = {"set up this clone": time.time() - begun}
    todo = list_steps(sku, kernel)
    done: Done | None = None
    first_task: float | None = None
    for number, (title, step) in enumerate(todo.items(), 1):
        print(f"\n[{number}/{len(todo)}] {title}", flush=True)
        done = run_step(step, title)
        if done.code:
            command = shlex.join(step.command if step.command[0] == VEPYC else ["tools/run.sh", *step.command])
            print(f"site: '{title}' failed with exit code {done.code}; run it again alone: {command}")
            return done.code
        if first_task is None and done.seconds_to_first_task is not None:
            first_task = sum(seconds.values()) + done.seconds_to_first_task
        seconds[title] = done.seconds
    assert done is not None and first_task is not None
    tuned_mark_path(sku).write_text(collection_digest())
    print("\nWhere the time went:")
    for title, spent in seconds.items():
        print(f"{spent:7.0f} s  {title}")
    print(f"{sum(seconds.values()):7.0f} s  in all")
    print_and_save_times(kind, {"before": first_task, "after": sum(seconds.values()) - first_task})
    if page:
        replace_recorded_block(page, render_summary(list(todo), done.output))
    print(f"\n{EMULATED}")
    print(f"{sku} was tuned and rebooted, has passed the checklist, and its model has answered. Nothing waits.")
    print_next_commands(sku)
    return 0


def ask_machine(sku: str, prompt: str, guesses: bool = False) -> int:
    """Ask the model of the running machine; return the exit code."""
    code = run_step(ask_model_step(sku, prompt, guesses), "ask the service").code
    print(EMULATED)
    return code


def boot_stopped_machine(sku: str) -> int:
    """Boot the stopped machine, and print whether it is tuned as before; return the exit code."""
    run_dir = RunDirectory.of_machine(sku)
    if not run_dir.is_alive() and not run_dir.has_bootable_disk():
        print(f"site: there is no machine that was switched off; make one: make site SKU={sku}")
        return 1
    if code := run_step(Step([VEPYC, "start", sku], "40 to 120 s", announces=True), BOOT).code:
        return code
    if not is_tuned(sku):
        print(f"It is not, or no longer, as this collection tunes it: make site SKU={sku}")
        return 1
    print(f"It is tuned as it was, and every setting is in force. Ask it: make ask SKU={sku} PROMPT='...'")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sku")
    parser.add_argument("--up", action="store_true")
    parser.add_argument("--ask", metavar="PROMPT")
    parser.add_argument("--record", metavar="PAGE", type=Path)
    parser.add_argument("--kernel", default=KERNEL, choices=RELEASES)
    parser.add_argument("--begun", type=float, default=time.time(), help="when the command began, in seconds of Unix")
    options = parser.parse_args()
    sku = options.sku
    if options.up:
        return boot_stopped_machine(sku)
    if options.ask is not None:
        if not RunDirectory.of_machine(sku).is_alive():
            print(f"site: there is nobody to ask; start one: make site SKU={sku}")
            return 1
        return ask_machine(sku, options.ask)
    if message := other_kernel_message(sku, options.kernel):
        print(message)
        return 1
    if not options.record and tuned_mark_path(sku).exists():
        if not RunDirectory.of_machine(sku).is_alive() and (code := run_step(boot_step(sku), BOOT).code):
            return code
        if is_tuned(sku):
            print(f"{sku} is tuned already: this collection has tuned it, and every setting is in force now.")
            print(f"For a new one first: lab/bin/vepyc down {sku}\n", flush=True)
            code = ask_machine(sku, PROMPT, guesses=True)
            if not code:
                print_next_commands(sku)
            return code
    return run_all_steps(sku, options.kernel, options.begun, options.record)


if __name__ == "__main__":
    sys.exit(main())
