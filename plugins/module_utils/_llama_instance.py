# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One instance of llama-server as systemd has it: planned, refused where it cannot be, written, started, awaited.

Everything that can be refused is refused before a unit is touched, so that what runs goes on. When the new one does not
start, the one before is there again.
Addresses: ``llama:/FILE`` with the text of a unit file, and ``llama:UNIT/enabled`` and ``llama:UNIT/active``.
"""

from __future__ import annotations

import os

from . import _gguf, _llama_args, _llama_plan, _llama_probe, _llama_room, _placement_memory, _textfile
from ._errors import BadRequest
from ._knob import Knob
from ._llama_options import Options
from ._llama_service import rpc_unit_of, unit_of
from ._llama_unit import unit_files
from ._threads import processes_of
from ._units import FOLDER, WithUnits, show, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ._host import Host
    from ._knob import Change, Settings
    from ._llama_room import Room
    from ._llama_service import Service

PREFIX = "llama"
TARGET = "multi-user.target"


class UnitFiles(Knob):
    """The unit files of an instance, with their texts as values, so that a difference shows what changes."""

    prefix = PREFIX
    remembered = False
    root = "/"

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return the texts of the files that are there. A link counts as none: that of a masked unit has no text."""
        return {address: self._text(address[len(PREFIX) + 1 :]) for address in addresses}

    def write(self, changes: Sequence[Change]) -> None:
        """Write and remove files."""
        for change in changes:
            path = _textfile.under(self.root, change.address[len(PREFIX) + 1 :])
            # What a link leads to is never written: that of a masked unit leads to a device.
            if change.after is None or os.path.islink(path):
                _textfile.remove(path)
            if change.after is not None:
                _textfile.replace(path, change.after)

    def _text(self, path: str) -> str | None:
        path = _textfile.under(self.root, path)
        return None if os.path.islink(path) else _textfile.read(path)


class Instance(WithUnits, UnitFiles):
    """The units of an instance: that of the server, and that of a draft which has a CCD to itself."""

    def __init__(self, name: str, files: Mapping[str, str], service: Service | None = None, root: str = "/") -> None:
        """``files`` are the texts of its units by path; with none of them it shall not be on the host."""
        self.root = root
        self.files = dict(files)
        self.service = service
        self.main = unit_of(name)
        self.names = [self.main, rpc_unit_of(name)]
        self.started_by = {self.main: TARGET}

    def wanted(self) -> Settings:
        """Return the texts of files, and systemd's words; the draft's server comes and goes with the other."""
        wanted: Settings = dict.fromkeys(f"{PREFIX}:{FOLDER}/{name}" for name in self.names)
        wanted.update({f"{PREFIX}:{path}": text for path, text in self.files.items()})
        for name in self.names:
            there = f"{FOLDER}/{name}" in self.files
            wanted[state(PREFIX, name, "active")] = "active" if there else None
        wanted[state(PREFIX, self.main, "enabled")] = "enabled" if self.files else None
        return wanted

    def outdated(self, files: Sequence[Change]) -> list[str]:
        """Return the units whose own file changed, those that others need first."""
        written = [change.address for change in files if change.after is not None]
        return [name for name in reversed(self.names) if f"{PREFIX}:{FOLDER}/{name}" in written]

    def remarks(self) -> list[str]:
        """Return what the plan says of this instance."""
        return list(self.service.remarks) if self.service else []

    def facts(self) -> dict[str, object]:
        """Return the plan as plain data."""
        return {"service": self.service.to_dict() if self.service else None}


def of_host(host: Host, raw: Mapping[str, Any]) -> Instance:
    """Return an instance as it shall be here. BadRequest says why it cannot be; nothing was changed then."""
    options = Options.parse(raw)
    able = _llama_probe.capabilities(options.binary)
    model = _gguf.read(options.model)
    draft = _gguf.read(options.draft_model) if options.drafts else None
    here = _llama_room.room(host, options, [one for one in (model, draft) if one])
    running = _running(options.name)
    if running:
        _release(host, unit_of(options.name), here)
    service = _llama_plan.plan_service(options, host, able, model, draft, here)
    arguments = _llama_args.arguments(service.wants, able)
    _refuse_a_taken_port(options, running)
    _llama_probe.dry_run(options.binary, arguments)
    service.remarks += _llama_probe.one_token(options.binary, able)
    return Instance(options.name, unit_files(service, arguments), service)


def absent(name: str) -> Instance:
    """Return an instance that shall not be on the host."""
    return Instance(name, {})


def _running(name: str) -> bool:
    unit = unit_of(name)
    return show([unit]).get(unit, {}).get("ActiveState") == "active"


def _release(host: Host, unit: str, here: Room) -> None:
    """Count what the running instance holds as free: it ends before the new one starts."""
    for process in processes_of(host.fs, unit):
        kinds = _placement_memory.read(host.fs, process, ()).kinds or {}
        memory: dict[int, int] = {}
        pages: dict[tuple[int, int], int] = {}
        anonymous = kinds.get("anonymous")
        if anonymous is None:
            continue
        huge = sum(size for kb, size in anonymous.page_sizes.items() if kb >= here.default_kb)
        share = 1 - huge / anonymous.bytes if anonymous.bytes else 0
        for node, size in anonymous.nodes.items():
            memory[node] = int(size * share)
            pages[node, here.default_kb] = int(size * (1 - share)) // (here.default_kb << 10)
        here.release(memory, pages)


def _refuse_a_taken_port(options: Options, running: bool) -> None:
    # Imported here because most runs of the engine open no socket.
    import errno
    import socket

    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the server does: connections that have ended do not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, options.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if running and _is_ours(options):
                    return
                raise BadRequest(
                    f"port {options.port} of {options.host} is taken by another program; 'ss -ltnp' tells by which. "
                    "Give the instance another port, or stop that program."
                ) from None
            words = os.strerror(error.errno or 0)
            raise BadRequest(f"host {options.host}: {words}. Say an address of this host.") from None


def _is_ours(options: Options) -> bool:
    """Tell whether the unit as it is now has this port."""
    text = _textfile.read(f"{FOLDER}/{unit_of(options.name)}") or ""
    return f"--port {options.port}" in text
