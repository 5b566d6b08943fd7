# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the agent says of an instance, by the state of its unit and by the host's own check.

tests/service/test_gateway_agent.py has the real HAProxy ask it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent, _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import Finding
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD

#: The words that hold until somebody says another one, with which an agent would overrule operators of a gateway.
STICKY = {"ready", "drain", "maint"}


class Host:
    """The files of a host, and the states of its units."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.states = {"llama-chat.service": "active"}
        self.asked: list[Sequence[str]] = []

    def run(self, command: Sequence[str], seconds: float | None = None) -> CommandResult:
        self.asked.append(command)
        return CommandResult(0, f"{self.states.get(command[2], 'inactive')}\n", "")

    def wants(self, **more: Any) -> dict[str, Any]:
        return {**_agent.DEFAULTS, "textfile": str(self.root / "epyc.prom"), "oldest": 3000.0, **more}

    def checked(self, *findings: Finding, age: float = 0) -> None:
        """Have checked itself so many seconds ago."""
        path = self.root / "epyc.prom"
        path.write_text(metrics.render_host_metrics(findings, {}, {}, {}))
        os.utime(path, (time.time() - age,) * 2)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    one = Host(tmp_path)
    monkeypatch.setattr(_agent.command, "try_command", one.run)
    monkeypatch.setattr(_agent, "AWAY", str(tmp_path / "run/away"))
    monkeypatch.setattr(_agent, "UNIT_FOLDER", str(tmp_path))
    return one


def finding(what: str, live: str = "drift", pending: bool = False) -> Finding:
    made = Finding("sysfs", what, "drift")
    made.live, made.pending_reboot = live, pending
    return made


@pytest.mark.parametrize("state", ["deactivating", "activating", "inactive", "failed"])
def test_an_instance_that_stops_or_does_not_serve_yet_gets_nothing(host: Host, state: str) -> None:
    host.states["llama-chat.service"] = state
    assert _agent.answer_about_instance("chat", host.wants()) == f"stopped # llama-chat.service is {state}"


def test_where_systemd_does_not_answer_nothing_is_said(host: Host) -> None:
    host.states["llama-chat.service"] = ""
    assert _agent.answer_about_instance("chat", host.wants()) == ""


def test_a_host_as_configured_gets_all_and_says_so_each_time(host: Host) -> None:
    """Without the weight, HAProxy would keep the one of the last drift."""
    host.checked()
    assert _agent.answer_about_instance("chat", host.wants()) == "up 100%"
    assert _agent.answer_about_instance("chat", {**_agent.DEFAULTS}).startswith("up 100% # it does not check itself")


def test_drift_costs_what_the_operator_says(host: Host) -> None:
    host.checked(finding("NUMA balancing"), finding("prefetcher \u4e2d\n\x1b"), finding("a"), finding("b"))
    said = _agent.answer_about_instance("chat", host.wants())
    assert said == "up 50% # not as configured: NUMA balancing, prefetcher ?\\n\\\\x1b, a and more"
    assert _agent.answer_about_instance("chat", host.wants(untuned="out")).startswith(
        "stopped # not as configured: NUMA"
    )
    assert _agent.answer_about_instance("chat", host.wants(untuned="0%")).startswith("up 0% # ")


def test_a_run_of_site_yml_that_did_not_end_is_the_reason(host: Host) -> None:
    sentence = f"the run of site.yml that ops@ctl began did not end: it was to do {', '.join(['base', 'numa'] * 5)}"
    run = finding(sentence)
    run.layer = "run"
    host.checked(run, finding("NUMA balancing"))
    assert _agent.answer_about_instance("chat", host.wants()) == f"up 50% # {sentence}"


def test_what_is_in_force_or_waits_for_a_reboot_costs_nothing(host: Host) -> None:
    """A boot service that is not enabled, and a boot parameter that the operator has just asked for."""
    host.checked(finding("boot service", live="ok"), finding("isolcpus", pending=True), finding("x", live="unknown"))
    assert _agent.answer_about_instance("chat", host.wants()) == "up 100%"


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda host: host.checked(finding("x"), age=3600), "its last check is 60 minutes old"),
        (
            lambda host: (host.root / "epyc.prom").write_text(metrics.render_metrics_of_failed_check()),
            "could not be made",
        ),
        (lambda host: (host.root / "epyc.prom").write_text(""), "could not be made"),
        (lambda host: (host.root / "epyc.prom").mkdir(), "cannot be read"),
        (lambda host: None, "it has not checked itself yet"),
    ],
    ids=["old", "failed", "empty", "folder", "none"],
)
def test_a_check_that_says_nothing_is_told_and_costs_what_the_operator_says(
    host: Host, break_it: Any, why: str
) -> None:
    break_it(host)
    said = _agent.answer_about_instance("chat", host.wants())
    assert said.startswith("up 100% # ") and why in said
    assert _agent.answer_about_instance("chat", host.wants(unknown="out")).startswith("stopped # ")


def test_an_instance_of_vllm_is_asked_for_by_its_engine(host: Host) -> None:
    host.states["vllm-chat.service"] = "deactivating"
    assert _agent.answer_about_instance("vllm chat", host.wants()) == "stopped # vllm-chat.service is deactivating"
    assert _agent.answer_about_instance("chat", host.wants()).startswith("up ")
    assert [_agent._unit_of_question(asked) for asked in ("vllm -h", "other chat", "vllm  chat", "vllm")] == [
        "",
        "",
        "",
        "llama-vllm.service",
    ]


@pytest.mark.parametrize("name", ["", "-h", "--all", "a.b", "a*", "a b", "../a", "\u00e4", "a;b", "_"])
def test_what_is_no_name_of_an_instance(name: str) -> None:
    assert not _agent._can_be_instance_name(name)


@pytest.mark.parametrize(
    ("peer", "may"),
    [("10.0.0.2", True), ("::ffff:10.0.0.2", True), ("10.0.1.2", False), ("fd00::7%eth0", True), ("fd01::7", False)],
)
def test_who_may_ask(peer: str, may: bool) -> None:
    assert _agent._is_allowed_peer(peer, ["10.0.0.0/24", "fd00::/64"]) is may
    assert not _agent._is_allowed_peer(peer, [])


def test_by_hand_it_says_what_gateways_are_told(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    for name, head in (("chat", INSTANCE_HEAD), ("chat-rpc", INSTANCE_HEAD), ("b-rpc", INSTANCE_HEAD), ("x", "# x\n")):
        (host.root / f"llama-{name}.service").write_text(head)
    (host.root / "vllm-batch.service").write_text(INSTANCE_HEAD)
    assert _cli.main(["agent"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "b-rpc: stopped # llama-b-rpc.service is inactive; 'journalctl -u llama-b-rpc.service' says why. "
        "Run site.yml --tags llama.",
        "chat: up 100% # it does not check itself: epyc_base_textfile is not set",
        "vllm batch: stopped # vllm-batch.service is inactive; 'journalctl -u vllm-batch.service' says why. "
        "Run vllm.yml.",
    ]
    assert "No gateway can ask for this: set epyc_base_agent_bind" in said.err
    unit = {"untuned": "20%", "textfile": str(host.root / "epyc.prom"), "oldest": 9.0}
    (host.root / _agent.SERVICE).write_text(f"[Service]\n\n{_agent.SECTION}{json.dumps(unit)}\n")
    (host.root / _agent.SOCKET).write_text("")
    host.checked(finding("NUMA balancing"))
    assert _cli.main(["agent", "chat"]) == 0
    assert capsys.readouterr() == ("chat: up 20% # not as configured: NUMA balancing\n", "")


def test_a_host_leaves_and_joins(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    (host.root / "llama-chat.service").write_text(INSTANCE_HEAD)
    assert [_cli.main(["agent", word]) for word in ("--leave", "--leave", "--join", "--join")] == [0] * 4
    words = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert words == ["stopped", "stopped", "up", "up"]


def test_what_it_does_not_know_is_answered_by_its_usage(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--drain"], ["a", "b"], ["a.b"]):
        assert _cli.main(["agent", *words]) == 1
        assert capsys.readouterr() == ("", _agent.USAGE)
    assert _cli.main(["agent", "--help"]) == 0 and not host.asked


def test_no_answer_has_a_word_that_holds(host: Host) -> None:
    """HAProxy takes what comes before the sharp as words."""
    for state in ("active", "reloading", "deactivating", "failed"):
        host.states["llama-chat.service"] = state
        for share in ("out", "0%", "50%"):
            host.checked(finding("x"))
            words = _agent.answer_about_instance("chat", host.wants(untuned=share)).partition("#")[0].split()
            assert not STICKY & {*words} and words[0] in ("up", "stopped")
            assert len(words) == (2 if words[0] == "up" else 1)


class SilentPeer:
    """A connection whose other end says nothing: to read from it would take as long as the agent waits."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def settimeout(self, seconds: float) -> None:
        """Take any patience."""

    def recv(self, size: int) -> bytes:
        raise AssertionError("a stranger was waited for")

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


class Gateway(SilentPeer):
    """A connection on which a gateway asks for an instance."""

    def recv(self, size: int) -> bytes:
        return b"chat\n"


def write_service(host: Host, asked: str) -> None:
    (host.root / _agent.SERVICE).write_text(f"[Service]\n\n{_agent.SECTION}{asked}\n")


def test_who_may_not_ask_is_not_waited_for(host: Host) -> None:
    """Each silent stranger would take a second, while the question of a gateway waits behind it."""
    write_service(host, json.dumps({"allow": ["10.0.0.0/24"]}))
    stranger, gateway = SilentPeer(), Gateway()
    _agent.answer_question_of_gateway(stranger, "10.0.1.9")  # type: ignore[arg-type]
    _agent.answer_question_of_gateway(gateway, "10.0.0.2")  # type: ignore[arg-type]
    assert (stranger.sent, gateway.sent[0].split()[:2]) == ([], [b"up", b"100%"])


@pytest.mark.parametrize(
    "asked",
    [
        "{",
        "[1]",
        "5",
        '"x"',
        "null",
        pytest.param("[" * 100000, id="deep"),
        pytest.param("9" * 5000, id="long"),
        '{"allow": ["10.0.0.0/24", "gateway"]}',
        '{"allow": [5]}',
        '{"allow": 5}',
        '{"oldest": "long"}',
        '{"oldest": NaN}',
        '{"textfile": 3}',
        '{"untuned": ["out"]}',
        '{"unknown": "ready"}',
        '{"unknown": "\u0663%"}',
    ],
)
def test_a_damaged_unit_is_told_in_one_sentence(host: Host, capsys: pytest.CaptureFixture[str], asked: str) -> None:
    write_service(host, asked)
    assert _cli.main(["agent", "chat"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{host.root / _agent.SERVICE} is damaged: ") and said.count("\n") == 1
    assert "Run site.yml --tags base for this host." in said
    with pytest.raises(TuningError, match="is damaged"):
        _agent.answer_question_of_gateway(Gateway(), "10.0.0.2")  # type: ignore[arg-type]


@pytest.mark.parametrize("char", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\0"])
def test_drift_is_seen_whatever_its_name_holds(host: Host, char: str) -> None:
    host.checked(finding(f"a{char}b"))
    assert _agent.answer_about_instance("chat", host.wants()).startswith("up 50% # not as configured: a")
    # As a version before this one wrote it.
    line = f'sovereign_epyc_drift{{layer="x",what="a{char}b",where="",live="drift",pending_reboot="false"}} 1\n'
    (host.root / "epyc.prom").write_text(f"sovereign_epyc_check_success 1\n{line}")
    assert _agent.answer_about_instance("chat", host.wants()).startswith("up 50% # not as configured: a")


def test_a_check_of_the_future_is_not_fresh_for_ever(host: Host) -> None:
    host.checked(age=-30)
    assert _agent.answer_about_instance("chat", host.wants()) == "up 100%", "the clock was set a little"
    host.checked(age=-3 * 365 * 24 * 3600)
    said = _agent.answer_about_instance("chat", host.wants(unknown="20%"))
    assert said.startswith("up 20% # its last check is dated 1576800 minutes ahead")


def test_a_fifo_in_the_place_of_the_metrics_is_not_waited_for(host: Host) -> None:
    """The folder of the metrics may belong to somebody else, who could stop all answers for ever."""
    path = host.root / "epyc.prom"
    os.mkfifo(path)
    answers: list[str] = []
    reader = threading.Thread(
        target=lambda: answers.append(_agent.answer_about_instance("chat", host.wants())), daemon=True
    )
    reader.start()
    reader.join(2)
    if reader.is_alive():
        path.open("w").close()  # Lets the reader go, so that no thread outlives the test.
        pytest.fail("the agent waits for somebody to write into the FIFO")
    assert answers[0].startswith("up 100% # its last check cannot be read")
