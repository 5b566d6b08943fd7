# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent asked by a gateway while a restore removes it, and a removal that is killed."""

from __future__ import annotations

import os
import socket
from itertools import count
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent
from ansible_collections.sovereign.epyc.plugins.module_utils._agent import SERVICE, SOCKET
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.agent_units import STARTED_BY, AgentUnits
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs, standing_run
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import LastingSystemd

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

ASKED = {"bind": "10.0.0.11:8407", "allow": ["10.0.0.2"], "untuned": "50%", "unknown": "40%"}
STEPS = [(command, "run_command")]


class Host:
    """A host whose units of the agent come and go, and on which an instance serves."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = str(root)
        self.systemd = LastingSystemd(root, STARTED_BY)
        patch.setattr(command, "run_command", self.systemd.run)
        patch.setattr(command, "try_command", lambda *dummy: CommandResult(0, "active\n", ""))
        patch.setattr(_agent, "UNIT_FOLDER", f"{root}{UNIT_FOLDER}")
        patch.setattr(_agent, "AWAY", f"{root}/run/away")

    def install(self) -> None:
        self._converge(AgentUnits(ASKED, f"{self.root}/no.prom", 900.0, "0-3", self.root))

    def remove(self) -> None:
        self._converge(AgentUnits(root=self.root))

    def _converge(self, knob: AgentUnits) -> None:
        converge_knobs([knob], Ledger(Store(self.root), KernelFS(self.root)))

    def ask(self) -> bytes:
        """Return what a service that still runs answers to the gateway."""
        gateway, agent = socket.socketpair()
        with gateway:
            gateway.sendall(b"chat\n")
            with agent:
                _agent.answer_question_of_gateway(agent, "10.0.0.2")
            try:
                return gateway.recv(300)
            except ConnectionResetError:
                return b""  # The question was not read.


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_gateway_that_asks_amid_a_restore_gets_the_full_answer_or_none(host: Host) -> None:
    answers = []
    for turn in count(1):
        host.install()
        with standing_run(turn, host.remove, STEPS) as stands:
            is_there = host.systemd.file(SERVICE).exists()
            answers.append(host.ask())
            assert answers[-1] == (b"up 40% # it has not checked itself yet\n" if is_there else b""), turn
        if not stands:
            break
    assert len(set(answers)) == 2


def test_a_removal_that_was_killed_is_finished_by_the_next(host: Host) -> None:
    turns = 0
    for dummy in killed_runs(host.install, host.remove, STEPS):
        turns += 1
        host.remove()
        assert host.ask() == b""
        assert not [name for name in (SOCKET, SERVICE) if os.path.lexists(host.systemd.file(name))], turns
        assert not host.systemd.running_text(SOCKET) and not host.systemd.link(SOCKET).is_symlink(), turns
    assert turns > 4
