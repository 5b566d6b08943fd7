# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent: answers the agent check of a gateway's HAProxy with the share of requests that an instance can take.

It uses only words of HAProxy that the next answer replaces: ``up`` with a weight, and ``stopped``. ``drain`` and
``maint`` would stay in force until ``ready``, which would also end a drain that an operator has requested at the
gateway, and a drained server still gets the next turns of its conversations. ``up`` without a weight would leave the
last weight in force. An empty answer changes nothing; it is sent where the state of the instance is unknown.
Source: agent-check in the configuration manual of HAProxy; systemctl(1).
"""

from __future__ import annotations

import os
import socket
import sys
import time

from ._drift.metrics import parse_finding_labels
from ._errors import TuningError
from ._io import command, textfile
from ._io.paths import HOST_TOOL_FOLDER, INSTANCE_HEAD, UNIT_FOLDER
from ._notation.printable import escape_unprintable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SOCKET, SERVICE = "sovereign-epyc-agent.socket", "sovereign-epyc-agent.service"
#: The beginning of a section of the service's unit that systemd ignores: the options of the agent, as JSON.
SECTION = "[X-Sovereign-Epyc]\nAgent="
#: While this file exists, the host takes no requests. A boot removes it.
AWAY = "/run/sovereign-epyc/away"
FULL, OUT = "100%", "out"
#: The shares of a host with drift and of a host without a valid check; the metrics file of the check, its greatest age
#: in seconds, and the networks whose addresses get answers.
DEFAULTS = {"untuned": "50%", "unknown": FULL, "textfile": "", "oldest": 0.0, "allow": ()}
#: States of a unit that serves.
SERVES = ("active", "reloading", "refreshing")
#: Prefix of a unit's name by the word before the instance in a question, suffixes of units, and the end of their first
#: line.
BEGIN, END, DRAFT_END = {"": "llama-", "vllm": "vllm-"}, ".service", "-rpc.service"
OURS = INSTANCE_HEAD.partition(" by ")[2].strip()
#: Seconds to wait for the next question, and for the text of a question; and the most bytes of a question.
LINGER, PATIENCE, LONGEST = 60.0, 1.0, 128
#: Seconds that the time of a check may be in the future, because the clock was set meanwhile.
AHEAD = 60.0
#: The most findings that an answer names, and the most characters of a message about an unfinished run.
NAMED, LONGEST_MESSAGE = 3, 300
USAGE = """usage: sovereign-epyc agent [[vllm] INSTANCE]
       sovereign-epyc agent --leave | --join

  show what gateways are told of this instance, or of all, and why
  --leave has them send no new requests to this host until --join, or until it boots
"""


def main(words: Sequence[str]) -> int:
    """Run the command ``sovereign-epyc agent``, and return its exit code."""
    if list(words) == ["--help"]:
        sys.stdout.write(USAGE)
        return 0
    question = " ".join(words)
    try:
        if list(words) == ["--leave"]:
            textfile.write_file(AWAY, "")
        elif list(words) == ["--join"]:
            textfile.remove_file(AWAY)
        elif words and not _unit_of_question(question):
            sys.stderr.write(USAGE)
            return 1
        names = [question] if _unit_of_question(question) else _list_questions_for_instances()
        for name in names:
            line, state = answer_and_unit_state_of_instance(name, load_agent_options())
            line = line or "no answer: systemd does not say how it is"
            sys.stdout.write(
                f"{escape_unprintable(f'{name}: {line}{_stopped_unit_step_message(_unit_of_question(name), state)}')}\n"
            )
    except TuningError as error:
        sys.stderr.write(f"{escape_unprintable(str(error))}\n")
        return 1
    if not names:
        sys.stderr.write("This host has no instance of which a gateway could be told.\n")
    if not os.path.exists(f"{UNIT_FOLDER}/{SOCKET}"):
        sys.stderr.write("No gateway can ask for this: set epyc_base_agent_bind, and run site.yml --tags base.\n")
    return 0


def _stopped_unit_step_message(unit: str, state: str) -> str:
    """Return what to do about a unit that has stopped or failed, as a check says it; empty for another state."""
    if state not in ("failed", "inactive"):
        return ""
    # Imported here because the answers to gateways do not need it.
    from ._drift.next_step import stopped_unit_advice

    return f"; {stopped_unit_advice(unit)}"


def serve() -> None:
    """Answer at the socket from systemd, until no question comes for a minute or the host tool was replaced."""
    version = _read_tool_mtime()
    listening = socket.socket(fileno=3)
    listening.settimeout(LINGER)
    while _read_tool_mtime() == version:
        try:
            connection, peer = listening.accept()
        except socket.timeout:
            return
        # A gateway that closes the connection early, or sends nothing, gets no answer.
        try:
            with connection:
                answer_question_of_gateway(connection, peer[0])
        except OSError:
            continue
        except TuningError as error:
            sys.stderr.write(f"{escape_unprintable(str(error))}\n")


def answer_question_of_gateway(connection: socket.socket, peer: str) -> None:
    """Read the question of a gateway and answer it.

    Nothing is read from other peers, because gateways would have to wait for each peer that stays silent.
    """
    options = load_agent_options()
    if not _is_allowed_peer(peer, options["allow"]):
        return
    connection.settimeout(PATIENCE)
    name = connection.recv(LONGEST).decode("ascii", "replace").strip()
    line = answer_about_instance(name, options) if _unit_of_question(name) else ""
    connection.sendall(f"{line}\n".encode("ascii", "replace") if line else b"")


def load_agent_options() -> dict[str, Any]:
    """Return the options of the agent from the unit of its service. TuningError where they are damaged."""
    import json

    path = f"{UNIT_FOLDER}/{SERVICE}"
    text = textfile.read_text(path) or ""
    try:
        stored = json.loads(text.partition(SECTION)[2].partition("\n")[0] or "{}")
        options = {**DEFAULTS, **stored}
        _validate_agent_options(options)
    except (ValueError, TypeError, RecursionError):
        raise TuningError(
            f"{path} is damaged: its line Agent= does not say what gateways are to be told, so they get no answer. "
            "Run site.yml --tags base for this host."
        ) from None
    return options


def _validate_agent_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError where an option of the agent has a value that site.yml does not write."""
    import ipaddress

    is_valid = (
        isinstance(options["textfile"], str)
        and all(_is_share_of_requests(options[name]) for name in ("untuned", "unknown"))
        and 0 <= options["oldest"] < float("inf")
        and all(isinstance(network, str) and ipaddress.ip_network(network) for network in options["allow"])
    )
    if not is_valid:
        raise ValueError


def _is_share_of_requests(text: object) -> bool:
    """Return whether a value is a share of requests: a number with or without a percent sign, or out."""
    return isinstance(text, str) and (text == OUT or (text.isascii() and text.rstrip("%").isdecimal()))


def answer_about_instance(question: str, options: Mapping[str, Any]) -> str:
    """Return the answer about an instance; an empty one where its state is unknown.

    A question names an instance of llama-server by its name, and one of vLLM by the word vllm and its name.
    """
    return answer_and_unit_state_of_instance(question, options)[0]


def answer_and_unit_state_of_instance(question: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the answer about an instance and systemd's state of its unit; no state where the host has left."""
    if os.path.lexists(AWAY):
        return "stopped # this host was told to leave; 'sovereign-epyc agent --join' takes it back", ""
    unit = _unit_of_question(question)
    state = command.try_command(["systemctl", "is-active", unit], PATIENCE * 3).out.strip()
    if state not in SERVES:
        return (f"stopped # {unit} is {state}" if state else ""), state
    share, reason = read_share_of_requests_after_last_check(options)
    line = "stopped" if share == OUT else f"up {share}"
    return (f"{line} # {reason}" if reason else line), state


def read_share_of_requests_after_last_check(options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the share of requests after the last check of this host, and the reason where it is not the full one."""
    path = options["textfile"]
    if not path:
        return FULL, "it does not check itself: epyc_base_textfile is not set"
    try:
        text = textfile.read_text(path)
        age = time.time() - os.stat(path).st_mtime if text is not None else 0.0
    except (TuningError, OSError) as error:
        return options["unknown"], f"its last check cannot be read: {error}"
    if text is None:
        return options["unknown"], "it has not checked itself yet"
    if age > options["oldest"]:
        return options["unknown"], f"its last check is {age / 60:.0f} minutes old, so its timer does not run"
    if age < -AHEAD:
        return options["unknown"], f"its last check is dated {-age / 60:.0f} minutes ahead, so its age is not known"
    findings = parse_finding_labels(text)
    if findings is None:
        return options["unknown"], "its last check could not be made"
    # Settings that wait for a reboot were just requested, and those without live drift are in force: neither counts.
    drifted = [row for row in findings if row.get("live") == "drift" and row.get("pending_reboot") != "true"]
    if not drifted:
        return FULL, ""
    # The message about an unfinished run of site.yml replaces the others, because it explains them.
    unfinished = next((row.get("what", "") for row in drifted if row.get("layer") == "run"), "")
    if unfinished:
        return options["untuned"], _shorten_to_printable_ascii(unfinished, LONGEST_MESSAGE)
    names = ", ".join(dict.fromkeys(_shorten_to_printable_ascii(row.get("what", "")) for row in drifted[:NAMED]))
    return options["untuned"], f"not as configured: {names}{' and more' if len(drifted) > NAMED else ''}"


def _shorten_to_printable_ascii(text: str, max_length: int = 60) -> str:
    """Return a shortened text with ? for each character that is no printable ASCII."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:max_length])


def _unit_of_question(question: str) -> str:
    """Return the unit that a question names; an empty text for a text that is no question."""
    engine, dummy, name = question.rpartition(" ")
    return f"{BEGIN[engine]}{name}{END}" if engine in BEGIN and _can_be_instance_name(name) else ""


def _can_be_instance_name(text: str) -> bool:
    """Return whether a text may be the name of an instance, and is no option, pattern or path for systemctl."""
    return text.isascii() and text[:1].isalnum() and text.replace("-", "").replace("_", "").isalnum()


def _is_allowed_peer(peer: str, allow: Sequence[str]) -> bool:
    """Return whether an address is in the allowed networks; systemd drops other packets only on kernels with BPF."""
    import ipaddress

    address: Any = ipaddress.ip_address(peer.partition("%")[0])
    # A socket for all addresses shows IPv4 addresses as mapped ones.
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in ipaddress.ip_network(network) for network in allow)


def _list_questions_for_instances() -> list[str]:
    """Return the questions for all instances of this host, by the units that the collection wrote."""
    files = sorted(os.listdir(UNIT_FOLDER))
    drafts = [file for file in files if file.endswith(DRAFT_END) and file.replace(DRAFT_END, END) in files]
    questions = []
    for engine, prefix in BEGIN.items():
        for file in files:
            if file.startswith(prefix) and file.endswith(END) and file not in drafts:
                first = (textfile.read_text(f"{UNIT_FOLDER}/{file}") or "").partition("\n")[0]
                questions += [f"{engine} {file[len(prefix) : -len(END)]}".strip()] if first.endswith(OURS) else []
    return questions


def _read_tool_mtime() -> int:
    """Return the time of this module's file, so that a replaced host tool is noticed; 0 where it was removed."""
    try:
        return os.stat(f"{HOST_TOOL_FOLDER}/sovereign_epyc/_agent.py").st_mtime_ns
    except OSError:
        return 0
