# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy and keepalived: each gets a configuration of the collection, or the configuration from before.

Before the first change, the old configuration is copied and the state of the service is noted. The note is written
after the copy and removed before it, so that an interrupted run can be repeated.
"""

from __future__ import annotations

import glob
import grp
import hashlib
import http.client
import json
import os
import pwd
import tempfile
import time
import urllib.request

from .._errors import BadRequest, Damaged, NotApplied
from .._formats import FIRST, take_stamp
from .._io import command, textfile
from .._io.blocks import suppress
from .gateway_lock import hold_gateway_lock
from .server_state_file import update_addresses_in_state_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Service -> path of its configuration, and the command that checks a configuration.
SERVICES = {
    "haproxy": ("/etc/haproxy/haproxy.cfg", ("/usr/sbin/haproxy", "-c", "-f")),
    "keepalived": ("/etc/keepalived/keepalived.conf", ("/usr/sbin/keepalived", "--config-test", "--use-file")),
}
#: Placeholders in a configuration: for the digest of its text, and for the paths of the key file and of the script.
DIGEST, KEY_FILE, SCRIPT_FILE = "<digest>", "<key file>", "<script file>"
#: Seconds until a reloaded configuration has to be in force.
RELOAD_TIMEOUT = 10


class GatewayService:
    """A service of the distribution on the host of a gateway; in check mode nothing is written.

    ``before`` and ``after`` have what changes by address: ``SERVICE:PATH``, ``SERVICE:enabled`` and ``SERVICE:active``.
    """

    def __init__(self, name: str, check: bool, root: str = "/", clock: Any = time) -> None:
        path, self.test_command = SERVICES[name]
        self.name = name
        self.check = check
        self.clock = clock
        self.path = textfile.path_in_tree(root, path)
        self.folder = os.path.dirname(self.path)
        self.original_path = f"{self.path}.before-sovereign-epyc"
        self.note_path = f"{self.folder}/before-sovereign-epyc.json"
        self.before: dict[str, str | None] = {}
        self.after: dict[str, str | None] = {}

    def refuse_foreign_keepalived(self) -> None:
        """Raise BadRequest if keepalived has a configuration that this collection has not written."""
        if self.name == "keepalived" and self._load_note_of_original_state() is None and os.path.exists(self.path):
            raise BadRequest(
                "This host has a configuration of keepalived that is not from here: leave epyc_gateway_virtual_address "
                f"empty and add the address to {self.path} yourself, or remove that file. Nothing was changed."
            )

    def apply_configuration(
        self,
        configuration: str,
        key: str = "",
        script: str = "",
        models: Sequence[Mapping[str, Any]] = (),
        url: str = "",
    ) -> None:
        """Replace the configuration without ending a request, and have the service run now and after each boot.

        HAProxy sends ``key`` to instances, ``script`` is a program that the configuration names, and ``models`` have
        the servers. The response from ``url`` is the digest of the configuration in force; without a URL, the note has
        that digest. Raises as refuse_foreign_keepalived, and TuningError where another run holds the lock for too long.
        """
        with hold_gateway_lock(self.check):
            self._remove_temporary_files()
            self.refuse_foreign_keepalived()
            self._apply_configuration(configuration, key, script, models, url)

    def _apply_configuration(
        self, configuration: str, key: str, script: str, models: Sequence[Mapping[str, Any]], url: str
    ) -> None:
        note = self._load_note_of_original_state()
        if note is None:
            note = self._save_original_and_note()
        # The paths have digests, because the configuration from before goes on where the service refuses this one.
        key_path = f"{self.folder}/sovereign-epyc-{_short_digest(key)}.key" if key else ""
        script_path = f"{self.folder}/sovereign-epyc-{_short_digest(script)}.script" if script else ""
        if key:
            self._write_differing_file(key_path, f"key {key}\n", 0o600, shown_in_diff="a key")
        if script:
            self._write_differing_file(script_path, script, shown_in_diff="a script")
        text = configuration.replace(KEY_FILE, key_path).replace(SCRIPT_FILE, script_path)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._write_differing_file(self.path, text.replace(DIGEST, digest), validate=True)
        self._update_addresses_of_drained_servers(models)
        loaded = _fetch_text_from_this_host(url) if url else note.get("loaded")
        self._start_or_reload_and_enable(reload=loaded != digest)
        if url and not self.check:
            self._wait_until_configuration_is_loaded(url, digest)
        if not url:
            self._write_differing_file(self.note_path, json.dumps({**note, "loaded": digest}), shown_in_diff="a note")
        # Older files can be removed: a worker from before the reload has read its key and its script at its start.
        for path in glob.glob(f"{self.folder}/sovereign-epyc-*.*"):
            if path not in (key_path, script_path):
                self._remove_file(path)

    def restore_configuration_and_state(self) -> None:
        """Restore the configuration and the state of the service from before the first change, if there is a note.

        TuningError where another run holds the lock for too long.
        """
        with hold_gateway_lock(self.check):
            self._remove_temporary_files()
            note = self._load_note_of_original_state()
            if note is not None:
                self._restore_configuration_and_state(note)
            elif textfile.read_text(self.original_path) == textfile.read_text(self.path):
                # A run was killed that had not yet written the note, or had removed it.
                self._remove_file(self.original_path)

    def _restore_configuration_and_state(self, note: Mapping[str, Any]) -> None:
        active = note.get("active", False)
        if not active:
            self._run_verb_if_state_differs("active", "stop")
        if note.get("config"):
            self._restore_original_file(note)
        else:
            self._remove_file(self.path)
        if active:
            self._start_or_reload_and_enable(reload=True)
        self._run_verb_if_state_differs("enabled", "enable" if note["enabled"] else "disable")
        for path in (*glob.glob(f"{self.folder}/sovereign-epyc*"), self.note_path, self.original_path):
            self._remove_file(path)

    def _remove_temporary_files(self) -> None:
        """Remove what killed runs left in the folder of the configuration; hold the lock."""
        if not self.check:
            textfile.remove_temporary_files(self.folder)

    def _load_note_of_original_state(self) -> dict[str, Any] | None:
        text = textfile.read_text(self.note_path)
        try:
            note = None if text is None else dict(json.loads(text))
        except (TypeError, ValueError):
            raise Damaged(self.note_path, "it is no note about a service") from None
        if note is not None:
            take_stamp(self.note_path, note, FIRST)
        return note

    def _save_original_and_note(self) -> dict[str, Any]:
        """Copy the configuration, note the state of the service, and return the note."""
        note: dict[str, Any] = {"config": os.path.exists(self.path), "owner": "root", "group": "root"}
        if note["config"]:
            status = os.stat(self.path)
            with suppress(KeyError):
                note["owner"] = pwd.getpwuid(status.st_uid).pw_name
                note["group"] = grp.getgrgid(status.st_gid).gr_name
            text = textfile.read_text(self.path) or ""
            self._write_differing_file(self.original_path, text, status.st_mode & 0o7777, shown_in_diff="a copy")
        state = self._read_active_and_enabled_state()
        note.update(active=state["active"] == "active", enabled=state["enabled"] == "enabled")
        self._write_differing_file(self.note_path, json.dumps(note), shown_in_diff="a note")
        return note

    def _restore_original_file(self, note: Mapping[str, Any]) -> None:
        owner = group = 0
        with suppress(KeyError):
            owner, group = pwd.getpwnam(note["owner"]).pw_uid, grp.getgrnam(note["group"]).gr_gid
        text = textfile.read_text(self.original_path) or ""
        self._write_differing_file(self.path, text, os.stat(self.original_path).st_mode & 0o7777)
        if not self.check:
            textfile.set_owner_and_mode(self.path, owner, group)

    def _write_differing_file(
        self, path: str, text: str, mode: int = 0o644, shown_in_diff: str = "", validate: bool = False
    ) -> None:
        """Write a file if its text, mode or owner differs; ``shown_in_diff`` stands for its text in ``after``."""
        old = textfile.read_text(path)
        if old == text:
            status = os.stat(path)
            if (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (mode, os.geteuid(), os.getegid()):
                return
        address = f"{self.name}:{path}"
        self.before[address] = f"{shown_in_diff} from before" if shown_in_diff and old is not None else old
        self.after[address] = shown_in_diff or text
        if self.check:
            return
        if validate:
            self._validate_with_service(text)
        textfile.write_file(path, text, mode, keep_owner=False)

    def _remove_file(self, path: str) -> None:
        if os.path.exists(path):
            self.before[f"{self.name}:{path}"] = "a file"
            self.after[f"{self.name}:{path}"] = None
            if not self.check:
                textfile.remove_file(path)

    def _validate_with_service(self, configuration: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{os.path.basename(self.path)}"
            textfile.write_file(path, configuration, 0o600)
            result = command.try_command([*self.test_command, path])
        if result.code:
            raise BadRequest(
                f"{self.name} does not take the configuration, so that the one from before goes on. It says: "
                + " ".join((result.err + result.out).split())
            )

    def _update_addresses_of_drained_servers(self, models: Sequence[Mapping[str, Any]]) -> None:
        """Give servers that are out of service their new ports, because HAProxy reads ports from that file too."""
        path = f"{self.folder}/sovereign-epyc.state"
        text = textfile.read_text(path)
        if text is not None:
            servers = [(model["backend"], server) for model in models for server in model["servers"]]
            addresses = {f"{backend}/{server['name']}": str(server["address"]) for backend, server in servers}
            self._write_differing_file(path, update_addresses_in_state_file(text, addresses))

    def _read_active_and_enabled_state(self) -> dict[str, str]:
        """Return the state of the service and of its unit file by ``active`` and ``enabled``."""
        properties = "--property=ActiveState,UnitFileState"
        output = command.run_command(["systemctl", "show", properties, f"{self.name}.service"])
        rows = dict(line.partition("=")[::2] for line in output.splitlines())
        return {"active": rows.get("ActiveState", ""), "enabled": rows.get("UnitFileState", "")}

    def _start_or_reload_and_enable(self, reload: bool) -> None:
        """Start the service, or have it load its configuration; and have it start at boot."""
        if not self._run_verb_if_state_differs("active", "start") and reload:
            self.before[f"{self.name}:loaded"], self.after[f"{self.name}:loaded"] = "another", "this configuration"
            self._run_systemctl_unless_check("reload")
        self._run_verb_if_state_differs("enabled", "enable")

    def _run_verb_if_state_differs(self, key: str, verb: str) -> bool:
        """Start, stop, enable or disable the service; return whether it was in another state."""
        current = self._read_active_and_enabled_state()[key]
        positive = current in ("active", "activating", "reloading", "enabled")
        if positive == (verb in ("start", "enable")):
            return False
        self.before[f"{self.name}:{key}"], self.after[f"{self.name}:{key}"] = current, verb
        self._run_systemctl_unless_check(verb)
        return True

    def _run_systemctl_unless_check(self, verb: str) -> None:
        if not self.check:
            command.run_command(["systemctl", verb, f"{self.name}.service"])

    def _wait_until_configuration_is_loaded(self, url: str, digest: str) -> None:
        for dummy in range(RELOAD_TIMEOUT):
            if _fetch_text_from_this_host(url) == digest:
                return
            self.clock.sleep(1)
        raise NotApplied(
            "HAProxy was reloaded and does not run the new configuration, while the one before goes on: journalctl -u "
            "haproxy says why, as when another program has the address of epyc_gateway_bind."
        )


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fetch_text_from_this_host(url: str) -> str | None:
    """Return the text at a URL of this host, without a proxy; None where no server answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return str(response.read(1000).decode(errors="replace"))
    except (OSError, ValueError, http.client.HTTPException):
        return None
