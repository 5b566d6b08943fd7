# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Python programs that run in a guest, without the seconds that each start of Python takes there."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from vepyc import GuestError, Machine
from vepyc.python import FORK_SERVER

TIMEOUT = 600


class Programs:
    """Runs programs in one guest. A server there takes one at a time; a second one is started for a second thread."""

    def __init__(self, machine: Machine, path: str) -> None:
        """``path`` is the folder of the guest where programs find what they import, besides Python's own."""
        self._machine = machine
        self._path = path
        self._idle: list[subprocess.Popen[str]] = []

    def run(
        self, program: str, imports: Sequence[str] = (), parameters: dict[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program. The modules in ``imports`` are imported once for this program and all later ones."""
        server = self._server()
        request = {"program": [program], "imports": list(imports), "parameters": parameters}
        stop = threading.Timer(TIMEOUT, server.kill)
        stop.start()
        try:
            answer = self._ask(server, json.dumps(request))
        except BaseException:
            server.kill()
            server.wait()
            raise
        finally:
            stop.cancel()
        self._idle.append(server)
        return subprocess.CompletedProcess([], answer["code"], answer["output"], answer["errors"])

    def end(self) -> None:
        """End the servers."""
        while self._idle:
            server = self._idle.pop()
            server.kill()
            server.wait()

    def _server(self) -> subprocess.Popen[str]:
        """A server that waits for a program; one that a reboot has ended is left behind."""
        with contextlib.suppress(IndexError):
            while True:
                server = self._idle.pop()
                if server.poll() is None:
                    return server
        # A connection of its own: tests close the one that commands share.
        command = f"PYTHONPATH={self._path} exec python3 /{FORK_SERVER}"
        # So are its errors: ssh makes what it inherits non-blocking, for this process too, and Ansible refuses that.
        with (self._machine.run_dir.path / "programs.log").open("ab") as errors:
            return subprocess.Popen(
                [*self._machine.ssh_command("-S", "none"), command],
                cwd=self._machine.run_dir.path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def _ask(self, server: subprocess.Popen[str], request: str) -> dict[str, Any]:
        assert server.stdin is not None
        assert server.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write(f"{request}\n")
            server.stdin.flush()
            line = server.stdout.readline()
        if not line:
            raise GuestError(
                f"{self._machine.name}: no answer of a program; its connection ended or {TIMEOUT} s passed:\n"
                f"{(self._machine.run_dir.path / 'programs.log').read_text()}"
            )
        return dict(json.loads(line))
