# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the new version of a running instance beside it, under a temporary name and at a port of its own.

A new version that does not serve stops nothing. One that serves gets the new connections of the instance, where
update/handover.py can redirect them, until the instance itself has been replaced. Elsewhere it has only shown that it
serves, and is stopped before the instance is. A server answers its health check only after a batch has gone through the
model, so an instance that serves also computes.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from ..._errors import TuningError
from ..._io import command, textfile
from ..._io.paths import UNIT_FOLDER
from ..._io.safe_open import remove_folder_or_link
from ..._io.sandbox import RUNTIME_UNIT_FOLDER
from ..._io.web.free_port import find_free_port
from ..._knobs.managed_units import add_journal_to_error, read_unit_properties, run_systemctl
from ..._notation.cpulist import parse_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.unit_syntax import format_unit_command_line
from ..options.unit_settings import list_unit_folders
from . import start_limits
from .shared_host import plan_instance_among_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..catalogue import EngineRow
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan
    from ..update.handover import Handover
    from .engine import Engine, HeldMemory

#: Ends the temporary name. The whole name must be a valid name of an instance.
NAME_SUFFIX, LONGEST_PREFIX = "-next", 35
#: Options that the temporary instance does not have: nothing restarts it, and it keeps no prompts on the disk.
LEFT_OUT_OPTIONS = ("watchdog", "slot_files")
#: Settings of a unit that name the ports of its server.
PORT_SETTINGS = ("SocketBindAllow", "SocketBindDeny")
RUNTIME_FOLDER = "RuntimeDirectory"
#: A temporary server without a handover ends by itself after these seconds, if the run that should stop it has died.
SECONDS_WITHOUT_HANDOVER = 60
#: A trial that fails is no failure of the host, so systemd takes each way to end as a success. Otherwise its journal
#: would have an error, and `systemctl --failed` the unit.
SUCCESS_LINE = (
    f"SuccessExitStatus={' '.join(map(str, range(1, 256)))} SIGABRT SIGBUS SIGFPE SIGILL SIGKILL SIGSEGV SIGSYS"
)
#: The code and the exit status of a command of a unit, as `systemctl show` prints them.
COMMAND_STATUS = re.compile(r"code=(\S+) ; status=(\d+)")


def temporary_instance_name(name: str) -> str:
    return f"{name[:LONGEST_PREFIX]}{NAME_SUFFIX}"


def single_server_reason(options: OptionTable) -> str:
    """Return a sentence on why an instance with these options cannot run twice on a host; "" where it can."""
    settings = [name for name in PORT_SETTINGS if name in options.unit_settings]
    # systemd gives a folder with all that is in it to the dynamic user of the unit that was started last, and removes a
    # runtime directory, whoever uses it, when a unit with this directory ends.
    folders = {key: words for key, words in options.unit_settings.items() if not options.user or key == RUNTIME_FOLDER}
    settings += list_unit_folders(folders)
    if options.hugepages == "hugetlbfs":
        return "The new server cannot be started first, because a hugetlbfs holds one copy of the model."
    if options.rpc_workers or options.workers:
        return "The new server cannot be started first, because the workers on other hosts serve one server."
    if settings:
        return f"The new server cannot be started first, because {settings[0]} in unit_settings is for one server."
    return ""


def plan_temporary_instance(
    engine: Engine,
    host: Host,
    request: Mapping[str, Any],
    capabilities: Any,
    held: Sequence[HeldMemory],
    before: Sequence[InstancePlan],
    running_plan: Mapping[str, Any] | None,
) -> InstancePlan:
    """Plan the new version next to the running one with its ``running_plan``; BadRequest without room for both."""
    left_out = {key: None for key in LEFT_OUT_OPTIONS if key in engine.options.fields}
    temporary_request = {**request, **left_out, "name": temporary_instance_name(request["name"])}
    temporary_request["port"] = find_free_port()
    if request.get("rpc_port"):
        temporary_request["rpc_port"] = find_free_port()
    options = engine.options.parse(temporary_request)
    replaced_pages = _negative_memory_of_replaced_files(engine.list_model_paths(options), running_plan)
    return plan_instance_among_others(engine, host, options, capabilities, [*held, *replaced_pages], before)


class NextServer:
    """The new version of a running instance, as a temporary unit that systemd ends by itself after some time.

    ``files`` are the texts of its units by path. With a ``handover``, it gets the new connections of the instance from
    ``start`` to ``end``; without one, ``start`` only shows that it serves, and stops it.
    """

    def __init__(
        self,
        service: InstancePlan,
        files: Mapping[str, str],
        row: EngineRow,
        handover: Handover | None,
        root: str = "/",
    ) -> None:
        self.handover = handover
        self.root = root
        self.is_running = False
        self._texts = {path.replace(UNIT_FOLDER, RUNTIME_UNIT_FOLDER, 1): text for path, text in files.items()}
        self._units = [os.path.basename(path) for path in self._texts]
        self._state_folders = row.state_folders(service.name)
        main_text = next(iter(self._texts.values()))
        self._start_lines = re.findall(r"^ExecStartPost=(.+)$", main_text, re.M)
        self._texts[f"{RUNTIME_UNIT_FOLDER}/{self._units[0]}.d/temporary.conf"] = self._render_drop_in(
            service, re.findall(r"^ExecStop=(.+)$", main_text, re.M)
        )

    def _render_drop_in(self, service: InstancePlan, stop_lines: Sequence[str]) -> str:
        options, handover = service.options, self.handover
        before, after = (handover.commands_before_drain(), handover.commands_after_stop()) if handover else ([], [])
        # A start of the instance, and of the version before if that start fails, after the old server was drained.
        swap = options.drain_timeout + options.stop_timeout
        swap += 2 * (start_limits.compute_start_timeout(service) + start_limits.MARGIN)
        lines = [
            "Restart=no",
            f"RuntimeMaxSec={swap if handover else SECONDS_WITHOUT_HANDOVER}",
            SUCCESS_LINE,
            "ExecStartPost=",
            # A failed command would fail the unit.
            *(f"ExecStartPost=-{line.lstrip('-')}" for line in self._start_lines),
            "ExecStop=",
            *(f"ExecStop=-+{format_unit_command_line(words[0], words[1:])}" for words in before),
            *(f"ExecStop={line}" for line in stop_lines),
            *(f"ExecStopPost=-+{format_unit_command_line(words[0], words[1:])}" for words in after),
        ]
        return "\n".join(["[Service]", *lines, ""])

    def start_and_redirect_new_connections(self) -> None:
        """Start the server until it serves, and hand the new connections over; TuningError where it does not serve."""
        try:
            for path, text in self._texts.items():
                textfile.write_file(textfile.path_in_tree(self.root, path), text)
            command.run_command(["systemctl", "daemon-reload"])
            self.is_running = True
            run_systemctl("restart", self._units[:1])
            self._require_served()
            if self.handover:
                self.handover.redirect_new_connections()
        except BaseException as error:
            self.end_after_its_last_request()
            if isinstance(error, TuningError):
                error.args = (f"It was started next to the running instance, which is untouched, and failed: {error}",)
            raise
        if not self.handover:
            self.end_after_its_last_request()

    def _require_served(self) -> None:
        """Raise TuningError where the server has ended, or where a command that shows that it serves has failed."""
        unit = self._units[0]
        output = command.run_command(["systemctl", "show", "--property=ActiveState,ExecStartPost", unit])
        statuses = [COMMAND_STATUS.search(row) for row in output.splitlines() if row.startswith("ExecStartPost=")]
        failed = any(
            not line.startswith("-") and (not found or found.group(2) != "0")
            for line, found in zip(self._start_lines, statuses)
        )
        if failed or "ActiveState=active" not in output.splitlines():
            raise add_journal_to_error(TuningError(f"{unit} does not serve."), [unit])

    def end_after_its_last_request(self) -> None:
        """Give the port back, wait until the requests of the temporary server have ended, and remove its units."""
        if not self.is_running:
            return
        self.is_running = False
        with suppress(TuningError):
            run_systemctl("stop", self._units)
        remove_temporary_units(self.root, self._units, self._state_folders)


def remove_temporary_units(root: str, units: Sequence[str], state_folders: Sequence[str]) -> None:
    """Remove the files of temporary units that have ended, and their state folders."""
    with suppress(TuningError):
        # systemd would go on listing a failed unit although its file is removed.
        run_systemctl("reset-failed", units)
    folder = textfile.path_in_tree(root, RUNTIME_UNIT_FOLDER)
    for unit in units:
        textfile.remove_file(f"{folder}/{unit}")
        remove_folder_or_link(f"{folder}/{unit}.d")
    for path in state_folders:
        remove_folder_or_link(textfile.path_in_tree(root, path))
    command.run_command(["systemctl", "daemon-reload"])


def end_leftover_server(root: str, name: str, row: EngineRow) -> None:
    """End the temporary server of an instance that a killed run has left, as soon as the instance itself serves."""
    units = row.unit_names(temporary_instance_name(name))
    if not os.path.exists(textfile.path_in_tree(root, f"{RUNTIME_UNIT_FOLDER}/{units[0]}")):
        return
    unit = row.unit_name(name)
    with suppress(TuningError):
        run_systemctl("start", [unit])
    if read_unit_properties([unit]).get(unit, {}).get("ActiveState") == "active":
        with suppress(TuningError):
            run_systemctl("stop", units)
        remove_temporary_units(root, units, row.state_folders(temporary_instance_name(name)))


def _negative_memory_of_replaced_files(
    model_files: Sequence[str], running_plan: Mapping[str, Any] | None
) -> list[HeldMemory]:
    """Return as held, with negative sizes, the files that only the running version maps.

    The kernel counts their pages as available.
    """
    nodes = parse_cpulist(running_plan["expect"]["nodes"]) if running_plan else ()
    new_files = [part for path in model_files for part in list_gguf_parts(path)]
    replaced_files = [path for path in running_plan["mapped"] if path not in new_files] if running_plan else []
    size = sum(os.path.getsize(path) for path in replaced_files if os.path.exists(path))
    return [(dict.fromkeys(nodes, -size // len(nodes)), {})] if size and nodes else []
