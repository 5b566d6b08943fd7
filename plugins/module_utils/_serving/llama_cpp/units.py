# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines that only units of llama-server have, and the unit of a draft that runs in a process of its own."""

from __future__ import annotations

import json
import os

from ..._io import sandbox
from ..._io.paths import BOOT_SERVICE, HOST_TOOL, UNIT_FOLDER
from ..._notation.cpulist import format_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.unit_syntax import format_unit_command_line, quote_unit_word
from ..catalogue import LLAMA
from ..hooks.read_progress import count_model_bytes
from ..options import router, rpc_endpoints
from ..options.options import POLICIES_BY_THREAD
from ..plan.cpu_assignment import GOMP, STRICT
from ..plan.instance_plan import staging_folder
from ..unit import hardening, start_limits, unit_files
from ..unit.installed import append_digest_line
from ..unit.unit_files import host_tool_hook_arguments
from . import slot_file_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..options.option_table import OptionTable
    from ..plan.instance_plan import DraftProcess, InstancePlan, Placement

RPC_SERVER = "ggml-rpc-server"
#: Ends a server early. An idle server ends at the first SIGTERM, a server with a request in progress only at the
#: second. This command sends the first and waits; then systemd sends the second. A server that failed has no process.
FIRST_SIGNAL = '[ -z "$MAINPID" ] || { kill "$MAINPID" && exec tail -s 0.1 --pid="$MAINPID" -f /dev/null; }'


def render_llama_units(
    service: InstancePlan,
    arguments: Sequence[str],
    programs: Mapping[str, list[int]] | None = None,
    keys_changed_at: int | None = None,
) -> dict[str, str]:
    """Return the texts of an instance's units by path: the unit of the server, and the unit of a separate draft."""
    texts = unit_files.render_server_unit_by_path(
        LLAMA, service, _build_server_unit_parts(service, arguments, programs or {}), programs, keys_changed_at
    )
    if service.rpc:
        texts[f"{UNIT_FOLDER}/{service.rpc.unit}"] = append_digest_line(_render_draft_unit(service, service.rpc))
    return texts


def draft_rpc_server_path(options: OptionTable) -> str:
    """Return the path of the ggml-rpc-server that drafts for an instance: by default the file next to its binary."""
    return str(options.rpc_binary or os.path.join(os.path.dirname(options.binary), RPC_SERVER))


def _build_server_unit_parts(
    service: InstancePlan, arguments: Sequence[str], programs: Collection[str]
) -> unit_files.UnitParts:
    options = service.options
    parts = unit_files.UnitParts(options.binary, arguments, f"llama-server {service.name}")
    paths = [*service.files, *map(os.path.realpath, service.files)]
    parts.mounted_folders = [
        *sorted({os.path.dirname(path) for path in paths}),
        *([options.hugetlbfs] if service.staged else []),
    ]
    parts.visible_files = list(service.files)
    parts.needed_units = [service.rpc.unit] if service.rpc else []
    parts.needs_other_hosts = bool(options.rpc_workers)
    parts.first_lines = [
        *router.unit_lines_with_router_ini(options),
        *slot_file_lines.unit_lines_of_slot_file_folder(service),
    ]
    # A command behind a plus sign runs as root and outside of the sandbox.
    parts.lines_before_start = [
        *(f"ExecStartPre=+{format_unit_command_line(HOST_TOOL, words)}" for words in _eviction_commands(service)),
        # A node without room makes the server slower, and is no reason not to start it.
        *(f"ExecStartPre=-+{format_unit_command_line(HOST_TOOL, words)}" for words in _make_room_commands(service)),
        *(f"ExecStartPre=+{format_unit_command_line(HOST_TOOL, words)}" for words in _page_placement_commands(service)),
        *_wait_for_workers_lines(service),
        *_wait_for_port_lines(service),
    ]
    # The models of a router are read by processes of their own.
    model_bytes = 0 if options.models else count_model_bytes(service.files)
    parts.answer_arguments = _hook_models_arguments(router.list_models_loaded_at_start(options))
    parts.await_arguments = [*parts.answer_arguments, *(["--bytes", str(model_bytes)] if model_bytes else [])]
    parts.drain_arguments = _hook_models_arguments(options.models)
    parts.lines_after_start = [
        *slot_file_lines.unit_lines_that_restore_slots(service, programs),
        *_move_http_threads_lines(service.placement),
    ]
    shell = ["/bin/sh", "-c", FIRST_SIGNAL]
    parts.stop_lines = [
        *slot_file_lines.unit_lines_that_save_slots(service),
        f"ExecStop=-{format_unit_command_line('/usr/bin/timeout', [str(options.stop_timeout), *shell])}",
    ]
    parts.save_seconds = slot_file_lines.compute_save_timeout(service)
    parts.last_lines = ["LimitMEMLOCK=infinity"] if service.parameters["load"] == "mlock" else []
    clients = unit_files.list_addresses_of_clients(options)
    if clients:
        parts.allowed_addresses = [
            *clients,
            *(address for address, dummy in rpc_endpoints.parse_worker_endpoints(options.rpc_workers)),
        ]
    return parts


def _render_draft_unit(service: InstancePlan, rpc: DraftProcess) -> str:
    options = service.options
    binary = draft_rpc_server_path(options)
    unit = [
        f"Description=Draft model of llama-server {service.name}",
        *unit_files.start_order_lines(True, BOOT_SERVICE),
        f"PartOf={service.unit}",
        *unit_files.start_limit_lines(service, bool(options.rpc_workers)),
    ]
    run = [
        "Type=exec",
        *hardening.user_setting_lines(options),
        f"ExecStart={format_unit_command_line(binary, rpc.arguments)}",
        f"TimeoutStopSec={options.stop_timeout}",
        *unit_files.restart_lines(options),
        *unit_files.LOG_LIMITS,
        *unit_files.cpu_and_memory_lines(rpc.placement),
        *hardening.network_restriction_lines(LOOPBACK[0]),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([binary]),
    ]
    return unit_files.render_unit_text(unit, run, [])


def _hook_models_arguments(names: Collection[str]) -> list[str]:
    return ["--models", ",".join(names)] if names else []


def _eviction_commands(service: InstancePlan) -> list[list[str]]:
    """Return the commands that drop model files from the page cache of wrong nodes."""
    placement = service.placement
    if service.staged or service.parameters["load"] != "mmap" or placement.policy == "rows":
        return []
    policy = placement.policy if placement.policy in ("bind", "interleave") else "local"
    whole = [path for path in service.mapped if list_gguf_parts(path)[0] == path]
    nodes = format_cpulist(placement.nodes)
    return [host_tool_hook_arguments("place", path, "--policy", policy, "--nodes", nodes) for path in whole]


def _make_room_commands(service: InstancePlan) -> list[list[str]]:
    """Return the command that gives each node the free pages that the instance needs there.

    Pages that are bound to their nodes need no such room, because for them the kernel drops page cache by itself. Huge
    pages come from their pools.
    """
    placement, options = service.placement, service.options
    if placement.policy not in ("interleave", *POLICIES_BY_THREAD) or options.hugepages == "pool":
        return []
    size = service.need.total - (service.need.weights if service.staged else 0)
    whole = [path for path in service.mapped if list_gguf_parts(path)[0] == path]
    nodes = format_cpulist(placement.nodes)
    return [host_tool_hook_arguments("room", size, "--nodes", nodes, "--files", json.dumps(whole))]


def _page_placement_commands(service: InstancePlan) -> list[list[str]]:
    """Return the commands that read the pages of model files onto their NUMA nodes before the server starts."""
    placement = service.placement
    nodes = format_cpulist(placement.nodes)
    # A command with the first file of a model places all files of the model.
    models = [path for path in service.files if list_gguf_parts(path)[0] == path]
    if service.staged:
        policy = "interleave" if placement.policy == "interleave" else "bind"
        folder = staging_folder(service.options)
        return [
            host_tool_hook_arguments("stage", path, folder, "--nodes", nodes, "--policy", policy)
            for path in models
            if path in service.staged
        ]
    if service.parameters["load"] != "mmap":
        return []
    if placement.policy == "rows":
        rows = service.expect["rows"]
        return [
            host_tool_hook_arguments("rows", path, "--threads", threads, "--nodes", nodes)
            for path, threads in rows.items()
        ]
    return []


def _wait_for_workers_lines(service: InstancePlan) -> list[str]:
    """Return the line that waits for RPC workers on other hosts; a server aborts when it cannot reach a worker."""
    if not service.options.rpc_workers:
        return []
    reach = host_tool_hook_arguments(
        "reach",
        rpc_endpoints.format_rpc_flag_value(service.options.rpc_workers),
        "--timeout",
        start_limits.compute_start_timeout(service),
    )
    return [f"ExecStartPre={format_unit_command_line(HOST_TOOL, reach)}"]


def _wait_for_port_lines(service: InstancePlan) -> list[str]:
    """Return the line that waits until ended connections of another engine's server no longer block the port."""
    if not service.port_reuse:
        return []
    options = service.options
    endpoint = unit_files.format_endpoint(options.host, options.port)
    timeout = min(start_limits.LONGEST_PORT_WAIT, start_limits.compute_start_timeout(service))
    words = host_tool_hook_arguments("port", endpoint, "--reuse", service.port_reuse, "--timeout", timeout)
    return [f"ExecStartPre={format_unit_command_line(HOST_TOOL, words)}"]


def _move_http_threads_lines(placement: Placement) -> list[str]:
    """Return the line that moves HTTP threads to their CPUs after the start; they start on the CPUs that compute."""
    if not placement.http_cpus or placement.affinity is not None or placement.pinned not in (STRICT, GOMP):
        return []
    return [
        f"ExecStartPost=-+{quote_unit_word(HOST_TOOL)} llama home $MAINPID --cpus {format_cpulist(placement.http_cpus)}"
    ]
