# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts a changed instance next to the running one, which is stopped only after the new one has served.

The new instance has a temporary name, a free port of the loopback, and units that are removed afterwards. A server
answers its health check only after a batch has gone through the model, so an instance that serves also computes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..._io import command, textfile
from ..._io.paths import UNIT_FOLDER
from ..._io.sandbox import RUNTIME_UNIT_FOLDER
from ..._io.web.free_port import find_free_port
from ..._knobs.managed_units import run_systemctl
from ..._notation.cpulist import parse_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..options import unit_settings
from ..options.option_table import LOOPBACK
from .shared_host import plan_instance_among_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..plan.instance_plan import InstancePlan
    from .engine import Engine, HeldMemory

#: Ends the temporary name. The whole name must be a valid name of an instance.
NAME_SUFFIX, LONGEST_PREFIX = "-next", 35
#: The temporary unit ends by itself soon after it serves, in case the process that should stop it has died.
TEMPORARY_DROP_IN = "[Service]\nRestart=no\nRuntimeMaxSec=60\n"


def temporary_instance_name(name: str) -> str:
    return f"{name[:LONGEST_PREFIX]}{NAME_SUFFIX}"


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
    temporary_request = dict(
        request, name=temporary_instance_name(request["name"]), host=LOOPBACK[0], port=find_free_port(), watchdog=None
    )
    if request.get("rpc_port"):
        temporary_request["rpc_port"] = find_free_port()
    if request.get("slot_files"):
        # The prompts of the running instance are its own, and those of the temporary instance are not worth a file.
        temporary_request["slot_files"] = None
    options = engine.options.parse(temporary_request)
    folders = unit_settings.list_unit_folders(options.unit_settings)
    if folders:
        raise BadRequest(f"unit_settings: {folders[0]} belongs to one server, and systemd would give it to another.")
    replaced_pages = _negative_memory_of_replaced_files(engine.list_model_paths(options), running_plan)
    return plan_instance_among_others(engine, host, options, capabilities, [*held, *replaced_pages], before)


def try_units_until_first_serves(files: Mapping[str, str]) -> None:
    """Start these units (text by path) until the first serves, and remove them; TuningError where it does not."""
    texts = {path.replace(UNIT_FOLDER, RUNTIME_UNIT_FOLDER, 1): text for path, text in files.items()}
    units = [os.path.basename(path) for path in texts]
    folder = f"{RUNTIME_UNIT_FOLDER}/{units[0]}.d"
    texts[f"{folder}/moment.conf"] = TEMPORARY_DROP_IN
    try:
        for path, text in texts.items():
            textfile.write_file(path, text)
        command.run_command(["systemctl", "daemon-reload"])
        run_systemctl("restart", units[:1])
    except TuningError as error:
        error.args = (f"It was started next to the running instance, which is untouched, and does not serve: {error}",)
        raise
    finally:
        with suppress(TuningError):
            run_systemctl("stop", units)
            # systemd would go on listing a failed unit although its file is removed.
            run_systemctl("reset-failed", units)
        for path in texts:
            textfile.remove_file(path)
        with suppress(OSError):  # the folder was never made
            os.rmdir(folder)
        command.run_command(["systemctl", "daemon-reload"])


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
