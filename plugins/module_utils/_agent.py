# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent: tells a gateway in one line how much an instance of this host can take, and why.

It answers the agent check of HAProxy, and only with words that the next answer replaces: ``up`` with a weight, and
``stopped``. ``drain`` and ``maint`` would hold until somebody says ``ready``, which also ends a drain that an operator
has asked for at the gateway, and a drained server still gets the next turns of its conversations. ``up`` without a
weight would leave the last one in force. Where nothing is known, no word is said, which changes nothing.
Source: agent-check in the configuration manual of HAProxy; systemctl(1).
"""

from __future__ import annotations

import os
import socket
import sys
import time

from ._errors import TuningError
from ._io import command, textfile
from ._io.paths import HOST_TOOL_FOLDER, INSTANCE_HEAD, UNIT_FOLDER
from ._notation.printable import escape_unprintable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SOCKET, SERVICE = "sovereign-epyc-agent.socket", "sovereign-epyc-agent.service"
#: Begins a part of the service's unit that systemd passes over: what the agent was asked to do, as JSON.
SECTION = "[X-Sovereign-Epyc]\nAgent="
#: While this file is there, the host takes no requests. A boot removes it.
AWAY = "/run/sovereign-epyc/away"
FULL, OUT = "100%", "out"
#: The shares of an untuned host and of one whose check says nothing; the file of the check, how old it may be in
#: seconds, and the networks that may ask.
DEFAULTS = {"untuned": "50%", "unknown": FULL, "textfile": "", "oldest": 0.0, "allow": ()}
#: Words of systemd for a unit that serves.
SERVES = ("active", "reloading", "refreshing")
#: How a unit of an instance is called, by the word before its name in a question; and how the first line of one ends.
BEGIN, END, DRAFT_END = {"": "llama-", "vllm": "vllm-"}, ".service", "-rpc.service"
OURS = INSTANCE_HEAD.partition(" by ")[2].strip()
#: Seconds: for which it waits for the next question, and for the words of one; and the size of a question.
LINGER, PATIENCE, LONGEST = 60.0, 1.0, 128
#: Seconds by which a check may be dated ahead of the clock, because the clock was set meanwhile.
AHEAD = 60.0
#: How many findings an answer names.
NAMED = 3
#: Characters of a sentence that is told whole.
LONGEST_SENTENCE = 300
DRIFT = "sovereign_epyc_drift{"
USAGE = """usage: sovereign-epyc agent [[vllm] INSTANCE]
       sovereign-epyc agent --leave | --join

  show what gateways are told of this instance, or of all, and why
  --leave has them send no new requests to this host until --join, or until it boots
"""


def main(words: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    if list(words) == ["--help"]:
        sys.stdout.write(USAGE)
        return 0
    one = " ".join(words)
    try:
        if list(words) == ["--leave"]:
            textfile.write_file(AWAY, "")
        elif list(words) == ["--join"]:
            textfile.remove_file(AWAY)
        elif words and not _unit_of_question(one):
            sys.stderr.write(USAGE)
            return 1
        names = [one] if _unit_of_question(one) else _list_instances()
        for name in names:
            told = build_answer(name, load_options()) or "no answer: systemd does not say how it is"
            sys.stdout.write(f"{escape_unprintable(f'{name}: {told}{_next_step(_unit_of_question(name), told)}')}\n")
    except TuningError as error:
        sys.stderr.write(f"{escape_unprintable(str(error))}\n")
        return 1
    if not names:
        sys.stderr.write("This host has no instance of which a gateway could be told.\n")
    if not os.path.exists(f"{UNIT_FOLDER}/{SOCKET}"):
        sys.stderr.write("No gateway can ask for this: set base_agent_bind, and run site.yml --tags base.\n")
    return 0


def _next_step(unit: str, told: str) -> str:
    """Return what to do about a unit that has stopped, as a check says it; empty for another answer."""
    if not told.endswith((" is failed", " is inactive")):
        return ""
    # Imported here, as no gateway is told of it.
    from ._drift.next_step import advise_on_unit

    return f"; {advise_on_unit(unit)}"


def serve_gateways() -> None:
    """Answer at the socket that systemd hands over, until nobody asks any more or the engine is another one."""
    began = _read_tool_version()
    listening = socket.socket(fileno=3)
    listening.settimeout(LINGER)
    while _read_tool_version() == began:
        try:
            connection, peer = listening.accept()
        except socket.timeout:
            return
        # A gateway that hangs up early, or says nothing, gets no answer.
        try:
            with connection:
                answer_connection(connection, peer[0])
        except OSError:
            continue
        except TuningError as error:
            sys.stderr.write(f"{escape_unprintable(str(error))}\n")


def answer_connection(connection: socket.socket, peer: str) -> None:
    """Read the question of a gateway and answer it.

    Nothing is read from another peer: each that connects and stays silent would have the gateways wait for it.
    """
    wants = load_options()
    if not _may_ask(peer, wants["allow"]):
        return
    connection.settimeout(PATIENCE)
    name = connection.recv(LONGEST).decode("ascii", "replace").strip()
    line = build_answer(name, wants) if _unit_of_question(name) else ""
    connection.sendall(f"{line}\n".encode("ascii", "replace") if line else b"")


def load_options() -> dict[str, Any]:
    """Return what the agent was asked to do, from the unit of its service. TuningError where that is damaged."""
    import json

    path = f"{UNIT_FOLDER}/{SERVICE}"
    text = textfile.read_text(path) or ""
    try:
        stored = json.loads(text.partition(SECTION)[2].partition("\n")[0] or "{}")
        wants = {**DEFAULTS, **stored}
        _validate_options(wants)
    except (ValueError, TypeError, RecursionError):
        raise TuningError(
            f"{path} is damaged: its line Agent= does not say what gateways are to be told, so they get no answer. "
            "Run site.yml --tags base for this host."
        ) from None
    return wants


def _validate_options(wants: Mapping[str, Any]) -> None:
    """ValueError or TypeError where an option of the agent has a value that site.yml does not write."""
    import ipaddress

    is_valid = (
        isinstance(wants["textfile"], str)
        and all(_is_share(wants[name]) for name in ("untuned", "unknown"))
        and 0 <= wants["oldest"] < float("inf")
        and all(isinstance(network, str) and ipaddress.ip_network(network) for network in wants["allow"])
    )
    if not is_valid:
        raise ValueError


def _is_share(text: object) -> bool:
    """Return whether a value is a share of requests: a number with or without a percent sign, or out."""
    return isinstance(text, str) and (text == OUT or (text.isascii() and text.rstrip("%").isdecimal()))


def build_answer(name: str, wants: Mapping[str, Any]) -> str:
    """Return the line on an instance; an empty one where it is not known how it is.

    An instance of llama-server is asked for by its name, and one of vLLM by the word vllm and its name.
    """
    if os.path.lexists(AWAY):
        return "stopped # this host was told to leave; 'sovereign-epyc agent --join' takes it back"
    unit = _unit_of_question(name)
    state = command.try_command(["systemctl", "is-active", unit], PATIENCE * 3).out.strip()
    if not state:
        return ""
    if state not in SERVES:
        return f"stopped # {unit} is {state}"
    share, why = share_after_last_check(wants)
    line = "stopped" if share == OUT else f"up {share}"
    return f"{line} # {why}" if why else line


def share_after_last_check(wants: Mapping[str, Any]) -> tuple[str, str]:
    """Return the share of requests that the last check of this host leaves it, and why it is that."""
    path = wants["textfile"]
    if not path:
        return FULL, "it does not check itself: base_textfile is not set"
    try:
        text = textfile.read_text(path)
        age = time.time() - os.stat(path).st_mtime if text is not None else 0.0
    except (TuningError, OSError) as error:
        return wants["unknown"], f"its last check cannot be read: {error}"
    if text is None:
        return wants["unknown"], "it has not checked itself yet"
    if age > wants["oldest"]:
        return wants["unknown"], f"its last check is {age / 60:.0f} minutes old, so its timer does not run"
    if age < -AHEAD:
        return wants["unknown"], f"its last check is dated {-age / 60:.0f} minutes ahead, so its age is not known"
    # Only "\n" ends a metric: splitlines() would also end one at characters that a label may have.
    lines = text.split("\n")
    if "sovereign_epyc_check_success 1" not in lines:
        return wants["unknown"], "its last check could not be made"
    # What waits for a reboot was asked for and is on its way; what only the next boot would lose is still in force.
    wrong = [
        line
        for line in lines
        if line.startswith(DRIFT) and ',live="drift"' in line and ',pending_reboot="true"' not in line
    ]
    if not wrong:
        return FULL, ""
    # A run of site.yml that did not end is said whole, and alone: it is why the rest may be wrong.
    unfinished = next((line for line in wrong if line.startswith(f'{DRIFT}layer="run",')), "")
    if unfinished:
        return wants["untuned"], _printable_ascii(_what_of(unfinished), LONGEST_SENTENCE)
    what = ", ".join(dict.fromkeys(_printable_ascii(_what_of(line)) for line in wrong[:NAMED]))
    return wants["untuned"], f"not as configured: {what}{' and more' if len(wrong) > NAMED else ''}"


def _what_of(line: str) -> str:
    """Return what a line of the file is about."""
    return line.partition(',what="')[2].partition('"')[0]


def _printable_ascii(text: str, longest: int = 60) -> str:
    """Return a text of the file, in which others may have written, without what a log or a terminal would obey."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:longest])


def _unit_of_question(question: str) -> str:
    """Return the unit that a question is about; an empty text for what is no question."""
    engine, dummy, name = question.rpartition(" ")
    return f"{BEGIN[engine]}{name}{END}" if engine in BEGIN and _is_name(name) else ""


def _is_name(text: str) -> bool:
    """Return whether a text may be the name of an instance: no option of systemctl, no pattern, no path."""
    return text.isascii() and text[:1].isalnum() and text.replace("-", "").replace("_", "").isalnum()


def _may_ask(peer: str, allow: Sequence[str]) -> bool:
    """Return whether an address is one of a gateway. systemd drops packets of others only where the kernel has BPF."""
    import ipaddress

    address: Any = ipaddress.ip_address(peer.partition("%")[0])
    # At a socket for all addresses, those of IPv4 look like this.
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in ipaddress.ip_network(network) for network in allow)


def _list_instances() -> list[str]:
    """Return the instances of this host as one asks for them, by the units that we wrote."""
    there = sorted(os.listdir(UNIT_FOLDER))
    drafts = [file for file in there if file.endswith(DRAFT_END) and file.replace(DRAFT_END, END) in there]
    found = []
    for engine, begin in BEGIN.items():
        for file in there:
            if file.startswith(begin) and file.endswith(END) and file not in drafts:
                first = (textfile.read_text(f"{UNIT_FOLDER}/{file}") or "").partition("\n")[0]
                found += [f"{engine} {file[len(begin) : -len(END)]}".strip()] if first.endswith(OURS) else []
    return found


def _read_tool_version() -> int:
    """Return what differs when the engine was replaced. What runs ends then, and systemd starts the new one."""
    try:
        return os.stat(f"{HOST_TOOL_FOLDER}/sovereign_epyc/_agent.py").st_mtime_ns
    except OSError:
        return 0
