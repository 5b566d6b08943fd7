#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole product on a virtual EPYC: tuned, rebooted, proven, and asked a question.

    site.py SKU                  do all of it
    site.py SKU --ask PROMPT     only ask, what runs there already
    site.py SKU --record PAGE    do all of it, and put what it says in the place that a page has for that

The first command that fails ends it, with that command's exit code. At the end it says where the time went.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: A step that prints nothing for so many seconds is told to be at work.
SILENCE = 15
#: What it is to say has been said, so that a server that guesses by what it has seen has something to guess. The model
#: is small, and knows little else.
PROMPT = "Write this line twice: The river runs past seven old mills, under a stone bridge."
#: Stands in a page above the block that `--record` writes.
RECORDED = "<!-- `make record` writes this block -->"
EMULATED = "The processor of this machine is emulated: its speed says nothing about that of a real EPYC."


def play(sku: str, name: str, *more: str) -> list[str]:
    """Return the command of a playbook."""
    return ["ansible-playbook", f"playbooks/{name}.yml", "-l", sku, *more]


def asking(sku: str, prompt: str, guesses: bool = False) -> list[str]:
    """Return the command that asks. A token takes an emulated processor about a second.

    With half as many tokens, the thread that talks HTTP may work half as much as those that compute, and count as busy.
    """
    asked = {"ask_prompt": prompt, "ask_tokens": 32, "ask_timeout": 300, "ask_guesses": guesses}
    return play(sku, "ask", "-e", json.dumps(asked))


def steps(sku: str) -> dict[str, list[str]]:
    """Return the commands by what they do, in their order."""
    return {
        "boot a virtual EPYC": ["lab/bin/vepyc", "up", sku, "--llama"],
        "tune it, and start the service": play(sku, "site"),
        "reboot it": play(sku, "reboot", "-e", "epyc_reboot_ok=true"),
        "go through the checklist": play(sku, "verify"),
        "show that a second run changes nothing": ["tools/expect_unchanged.py", "playbooks/site.yml", "-l", sku],
        "show the plan": play(sku, "plan"),
        "ask the service": asking(sku, PROMPT, guesses=True),
    }


def run(command: list[str], what: str) -> tuple[int, str]:
    """Run a command and pass on what it prints; say so when it is silent for long. Return its exit code and output."""
    output = b""
    begun = time.monotonic()
    running = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert running.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(running.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(SILENCE):
                print(f"... {what}: {time.monotonic() - begun:.0f} s", flush=True)
                continue
            text = os.read(running.stdout.fileno(), 1 << 16)
            if not text:
                return running.wait(), output.decode(errors="replace")
            output += text
            os.write(sys.stdout.fileno(), text)


def summary(titles: list[str], asked: str) -> str:
    """Return the steps, and what the last of them, the question, has shown; narrow enough for a page."""
    lines = [f"[{number}/{len(titles)}] {title}" for number, title in enumerate(titles, 1)]
    shown = textwrap.dedent(asked.partition("msg: |-\n")[2].partition("\nTASK ")[0]).strip()
    for line in shown.splitlines():
        lines += textwrap.wrap(line, 110, subsequent_indent=" " * 9) or [""]
    return "\n".join(lines)


def record(page: Path, text: str) -> None:
    """Put a text in the place that a page has for it."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(RECORDED)
    if not begin:
        raise SystemExit(f"{page} has no line {RECORDED!r}, so there is no place for what was said")
    # The end of the block may follow its begin at once.
    tail = rest.partition("```text\n")[2].partition("```\n")[2]
    page.write_text(f"{head}{begin}\n\n```text\n{text}\n```\n{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sku")
    parser.add_argument("--ask", metavar="PROMPT")
    parser.add_argument("--record", metavar="PAGE", type=Path)
    options = parser.parse_args()
    if options.ask is not None:
        if subprocess.run(["lab/bin/vepyc", "status", options.sku], cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
            print(f"site: there is nobody to ask; start one: make site SKU={options.sku}")
            return 1
        code, dummy = run(asking(options.sku, options.ask), "ask the service")
        print(EMULATED)
        return code
    seconds: dict[str, float] = {}
    todo = steps(options.sku)
    said = ""
    for number, (what, command) in enumerate(todo.items(), 1):
        print(f"\n[{number}/{len(todo)}] {what}", flush=True)
        begun = time.monotonic()
        code, said = run(command, what)
        seconds[what] = time.monotonic() - begun
        if code:
            print(f"site: '{what}' failed with exit code {code}; run it again alone: {shlex.join(command)}")
            return code
    print(f"\n{EMULATED}\nAsk it yourself: make ask SKU={options.sku} PROMPT='...'\n\nWhere the time went:")
    for what, spent in seconds.items():
        print(f"{spent:7.0f} s  {what}")
    print(f"{sum(seconds.values()):7.0f} s  in all")
    if options.record:
        record(options.record, summary(list(todo), said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
