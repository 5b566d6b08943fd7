# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of a unit that save the prompts of a server's slots before it stops, and restore them after its start.

A KV cache is of use only to a server with the same model, program and options that decide its content. All these are
arguments of the hook that runs after the start, which systemd takes from the same text as the command of the server.
The hook that runs before the stop may belong to a newer text, which a play has just written.
"""

from __future__ import annotations

import hashlib
import json

from ..._io.paths import HOST_TOOL
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.unit_syntax import format_unit_command_line
from ..unit import start_limits
from ..unit.unit_files import hook_credential_arguments, host_tool_hook_arguments, server_url_on_this_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..plan.instance_plan import InstancePlan

#: Parameters that decide the content of a KV cache, beside the files of the server.
CACHE_PARAMETERS = ("cache_type_k", "cache_type_v", "flash_attention", "experts", "mla", "adapters", "extra")
#: Saving may take SAVE_SECONDS, and as long as a disk with this rate takes, in bytes per second.
SAVE_SECONDS, SAVE_RATE = 10, 200_000_000


def unit_lines_of_slot_file_folder(service: InstancePlan) -> list[str]:
    """Return the lines for the folder of the slot files, which only the server and root can enter."""
    if not service.slot_bytes:
        return []
    return [f"StateDirectory={service.unit[: -len('.service')]}", "StateDirectoryMode=0700"]


def unit_lines_that_restore_slots(service: InstancePlan, programs: Collection[str]) -> list[str]:
    if not service.slot_bytes:
        return []
    options = service.options
    models = [path for path in (options.model, options.projector, *options.adapters) if path]
    files = [*(part for path in models for part in list_gguf_parts(path)), *programs]
    # Only root sees the process of the server, and when it was started. The hook gives its rights up soon.
    return _hook_lines(
        service,
        "ExecStartPost=-+",
        "restore-slots",
        *("--options", _compute_options_digest(service), "--files", json.dumps(sorted(files))),
        *("--timeout", start_limits.compute_start_timeout(service)),
    )


def unit_lines_that_save_slots(service: InstancePlan) -> list[str]:
    size = service.slot_bytes
    if not size:
        return []
    # Only root can read the API key of the server.
    return _hook_lines(
        service,
        f"ExecStop=-{'+' if service.options.api_key_file else ''}",
        "save-slots",
        *("--limit", service.options.slot_files_bytes, "--slot-bytes", f"{size.fixed},{size.each}"),
        *("--timeout", compute_save_timeout(service)),
    )


def compute_save_timeout(service: InstancePlan) -> int:
    """Return the seconds that saving may take; 0 for an instance that saves nothing."""
    size = service.slot_bytes
    if not size:
        return 0
    options = service.options
    most = options.slots * size.fixed + options.context * size.each
    return int(SAVE_SECONDS + min(options.slot_files_bytes, most) // SAVE_RATE)


def _hook_lines(service: InstancePlan, start_of_line: str, command: str, *arguments: object) -> list[str]:
    """Return the line of a hook; its start has a minus sign, because a lost prompt fails neither a start nor a stop."""
    options = service.options
    folder = service.parameters["slot_files"]
    words = host_tool_hook_arguments(command, server_url_on_this_host(options), folder, *arguments)
    line = format_unit_command_line(HOST_TOOL, [*words, *hook_credential_arguments(service)])
    return [f"{start_of_line}{line}"]


def _compute_options_digest(service: InstancePlan) -> str:
    parameters = {name: service.parameters.get(name) for name in CACHE_PARAMETERS}
    text = json.dumps([parameters, sorted(service.options.extra_environment.items())], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
