# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host on which a distribution has installed HAProxy and keepalived, with a systemd that only remembers."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import gateway_lock, service
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.service import GatewayService
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult

URL = "http://127.0.0.1:8405/configuration"
TEXT = "string <digest>\nmap_str(<key file>)\n"
NAMED_FILE = re.compile(r"\((/.*)\)|lua-load (/\S*)")


class Distribution:
    """The folder /etc of a host with both packages, and the states of their services.

    The states are in a file, so that other processes of a test see them too.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root / "host"
        self._states = root / "systemd.json"
        self._states.write_text(json.dumps({"active": "active", "enabled": "enabled", "loaded": ""}))
        self.calls: list[str] = []
        self.haproxy, self.keepalived = self.root / "etc/haproxy", self.root / "etc/keepalived"
        for folder in (self.haproxy, self.keepalived):
            folder.mkdir(parents=True)
        (self.haproxy / "haproxy.cfg").write_text("of the distribution\n")
        (self.haproxy / "haproxy.cfg").chmod(0o640)
        self.reload_works = True
        patch.setattr(gateway_lock, "LOCK", str(root / "run/gateway.lock"))
        # Killed runs leave their temporary folders.
        patch.setattr(tempfile, "tempdir", str(root))
        patch.setattr(command, "run_command", self.run_command)
        patch.setattr(command, "try_command", self.try_command)
        patch.setattr(service, "_fetch_text_from_this_host", lambda url: self.state("loaded"))

    def state(self, name: str) -> str:
        """Return a state: active, enabled, or loaded, which is the digest of the configuration in force."""
        return str(json.loads(self._states.read_text())[name])

    def set_state(self, **states: str) -> None:
        self._states.write_text(json.dumps({**json.loads(self._states.read_text()), **states}))

    def run_command(self, words: Sequence[str]) -> str:
        if words[1] == "show":
            return f"ActiveState={self.state('active')}\nUnitFileState={self.state('enabled')}\n"
        self.calls.append(words[1])
        if words[1] in ("start", "reload"):
            self.load()
        if words[1] in ("start", "stop"):
            self.set_state(active="active" if words[1] == "start" else "inactive")
        if words[1] in ("enable", "disable"):
            self.set_state(enabled=f"{words[1]}d")
        return ""

    def load(self) -> None:
        """Read the configuration, as a service does when it starts; TuningError where a file that it names is gone."""
        text = (self.haproxy / "haproxy.cfg").read_text()
        if lost := self.lost_files(text):
            raise TuningError(f"haproxy does not start: {lost}")
        if self.reload_works:
            self.set_state(loaded=text.partition("\n")[0].removeprefix("string "))

    def lost_files(self, text: str) -> list[str]:
        """Return the files that a configuration names and that are not there."""
        names = ("".join(groups) for groups in NAMED_FILE.findall(text))
        return [name for name in names if not Path(name).exists()]

    def try_command(self, words: Sequence[str]) -> CommandResult:
        text = Path(words[-1]).read_text()
        refused = "no timeout" in text or self.lost_files(text)
        return CommandResult(int(bool(refused)), "", "[ALERT] in 'timeout queue'\n" if refused else "")

    def service(self, name: str = "haproxy", check: bool = False) -> GatewayService:
        return GatewayService(name, check, str(self.root), clock=self)

    def sleep(self, seconds: float) -> None:
        self.calls.append("sleep")

    def apply(self, text: str = TEXT, check: bool = False, **more: Any) -> GatewayService:
        haproxy = self.service(check=check)
        haproxy.apply_configuration(text, **{"key": "secret", "url": URL, **more})
        return haproxy

    def restore(self) -> None:
        self.service().restore_configuration_and_state()

    def files(self) -> dict[str, tuple[str, int]]:
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        return {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in paths}
