# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A systemd for tests of pure logic, which does to a tree what systemctl does, and notes what it is asked for."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL, UNIT_FOLDER

#: What a lasting systemd keeps in its file.
STATES = ("active", "known", "starts")


class Systemd:
    """What systemctl does to a tree, and what systemd remembers until a daemon-reload."""

    def __init__(self, root: Path, started_by: Mapping[str, str]) -> None:
        self.root = root
        self.started_by = started_by
        (root / UNIT_FOLDER.lstrip("/")).mkdir(parents=True)
        self.active: dict[str, str] = {}
        self.substates: dict[str, str] = {}
        #: Units whose start is queued.
        self.jobs: set[str] = set()
        self.known: dict[str, tuple[str, str]] = {}
        #: Unit -> the number of its start, and the text of its file with which it was started.
        self.starts: dict[str, tuple[int, str]] = {}
        self.calls: list[str] = []
        self.refuses = self.journal = ""
        self.breaks: set[str] = set()
        self.no_interpreter = False

    def file(self, name: str) -> Path:
        return self.root / f"{UNIT_FOLDER}/{name}".lstrip("/")

    def link(self, name: str) -> Path:
        return self.file(f"{self.started_by[name]}.wants") / name

    def state(self, name: str) -> str:
        if os.path.islink(self.file(name)):
            return "masked"
        if name not in self.started_by:
            return "static"
        return "enabled" if self.link(name).is_symlink() else "disabled"

    def reload(self) -> None:
        self.known = {name: self.known[name] for name in self.known if self.file(name).exists()}
        for name in self.known:
            self.known[name] = (self.file(name).read_text(), self.state(name))

    def run(self, command: Sequence[str]) -> str:
        if command[0] == "journalctl":
            return self.journal
        if command[0].endswith(HOST_TOOL):
            self.calls.append(" ".join(["sovereign-epyc", *command[1:]]))
            if self.no_interpreter:
                raise TuningError(f"{command[0]} cannot be started: No such file or directory.")
            return ""
        assert command[0] == "systemctl"
        words = [word for word in command[1:] if not word.startswith("-")]
        verb, names = words[0], words[1:]
        self.calls.append(" ".join(words))
        if self.refuses and self.calls[-1].startswith(self.refuses):
            reason = "nothing" if "--quiet" in command else "no"
            raise TuningError(f"'systemctl {verb}' failed with exit code 1. It says: {reason}")
        if verb == "show":
            return "\n".join(self.show(name) for name in names)
        for name in names:
            assert self.file(name).exists(), f"there is no {name}"
            if verb == "enable":
                self.link(name).parent.mkdir(exist_ok=True)
                self.link(name).unlink(missing_ok=True)
                self.link(name).symlink_to(f"{UNIT_FOLDER}/{name}")
            elif verb == "disable":
                self.link(name).unlink()
            elif verb == "stop":
                self.active[name] = "inactive"
            elif verb == "reset-failed":
                if name not in self.active:
                    raise TuningError(f"Unit {name} not loaded.")
                if self.active[name] == "failed":
                    del self.active[name]
            elif verb == "restart" or (verb == "try-restart" and self.active.get(name) == "active"):
                self.active[name] = "failed" if name in self.breaks else "active"
                self.know(name)
                self.starts[name] = (len(self.starts) + self.starts.get(name, (0, ""))[0] + 1, self.known[name][0])
        if verb in ("enable", "daemon-reload") or (verb == "disable" and "--no-reload" not in command):
            self.reload()
        return ""

    def know(self, name: str) -> None:
        """Read the file of a unit that was not read yet."""
        if name not in self.known and self.file(name).exists():
            self.known[name] = (self.file(name).read_text(), self.state(name))

    def show(self, name: str) -> str:
        self.know(name)
        there = name in self.known
        text, state = self.known.get(name, ("", ""))
        old = there and (not self.file(name).exists() or self.file(name).read_text() != text)
        rows = {
            "Id": name,
            "LoadState": "loaded" if there else "not-found",
            "ActiveState": self.active.get(name, "inactive"),
            "SubState": self.substates.get(name, ""),
            "Job": "7" if name in self.jobs else "0",
            "UnitFileState": state,
            "NeedDaemonReload": "yes" if old else "no",
            "InvocationID": f"{self.starts[name][0]:032x}" if name in self.starts else "",
        }
        return "".join(f"{key}={value}\n" for key, value in rows.items())

    def asked(self) -> list[str]:
        """Return what it was asked for since the last time."""
        calls, self.calls = self.calls, []
        return calls


class LastingSystemd(Systemd):
    """A systemd whose memory is in a file, so that it outlives the process that asks it."""

    def run(self, words: Sequence[str]) -> str:
        memory = self.root / "systemd.pickle"
        if memory.exists():
            vars(self).update(pickle.loads(memory.read_bytes()))
        try:
            return super().run(words)
        finally:
            memory.write_bytes(pickle.dumps({name: getattr(self, name) for name in STATES}))

    def running_text(self, name: str) -> str:
        """Return the text of the unit file with which a unit was started; "" where it does not run."""
        self.run(["systemctl", "show", name])
        return self.starts[name][1] if self.active.get(name) == "active" else ""
