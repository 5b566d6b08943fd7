# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit of a host's RPC worker, and the folder in which the worker stores the weights that it received.

An RPC worker has no authentication, so the unit has the kernel admit connections from the clients' addresses only.
Source: tools/rpc/rpc-server.cpp of llama.cpp (LLAMA_CACHE); systemd.exec(5), StateDirectory; IPAddressAllow in
systemd.resource-control(5).
"""

from __future__ import annotations

import json

from ..._errors import BadRequest
from ..._io import sandbox
from ..._io.paths import BOOT_SERVICE, INSTANCE_HEAD, UNIT_FOLDER
from ..._knobs.protocol.knob import Knob
from ..._notation.unit_syntax import format_unit_command_line
from ..options.unit_names import WORKER_UNIT
from ..plan.memory import free_memory
from ..plan.rpc_workers import parse_listen_and_client_addresses, parse_worker_options, plan_worker
from ..unit import hardening
from ..unit.installed import BOOT_TARGET, PLAN_MARK, append_digest_line
from ..unit.instance import Instance, PlanReport
from ..unit.unit_files import cpu_and_memory_lines
from . import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..plan.rpc_workers import RpcWorker

PATH = f"{UNIT_FOLDER}/{WORKER_UNIT}"
#: The name of the worker's state folder for systemd, and its paths. A dynamic user's folder is below "private".
STATE = "ggml-rpc-worker"
FOLDERS = (f"/var/lib/{STATE}", f"/var/lib/private/{STATE}")
SECONDS = 60


class WorkerUnit(Instance):
    """The unit of an RPC worker: written and started, or, without ``files``, removed together with stored weights."""

    def __init__(self, files: Mapping[str, str], root: str = "/") -> None:
        super().__init__(STATE, files, None, root)
        self.main_unit = WORKER_UNIT
        self.names = [WORKER_UNIT]
        self.folders = list(FOLDERS)
        self.started_by = {WORKER_UNIT: BOOT_TARGET}


class WorkerPlan(PlanReport):
    """A knob without settings that adds the plan of a worker to the module's result."""

    def __init__(self, worker: RpcWorker) -> None:
        super().__init__([])
        self.worker = worker

    def module_facts(self) -> dict[str, object]:
        """Return the plan of the worker as plain data."""
        return {"worker": self.worker.to_dict()}


def worker_knobs(host: Host, request: Mapping[str, Any], root: str = "/") -> list[Knob]:
    """Return the knobs that install or remove the RPC worker of a host; BadRequest for an impossible worker."""
    if request["state"] == "absent":
        return [WorkerUnit({}, root)]
    missing = [key for key in ("binary", "address", "port") if request[key] is None]
    if missing:
        raise BadRequest(f"{missing[0]} is missing, without which there is no worker. Set it.")
    options = parse_worker_options(request)
    parse_listen_and_client_addresses(request)
    settings = [
        *hardening.user_setting_lines(options),
        *hardening.network_restriction_lines("127.0.0.1"),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([options.binary]),
    ]
    files, openmp = probe.list_program_files_and_openmp(options.binary, settings)
    _require_rpc_server_with_cache(options.binary, settings)
    worker = plan_worker(host, request, openmp, free_memory.read_free_and_staged_memory(host, options, []))
    return [WorkerUnit({PATH: render_worker_unit(worker, files)}, root), WorkerPlan(worker)]


def _require_rpc_server_with_cache(binary: str, sandbox_settings: Sequence[str]) -> None:
    """Raise BadRequest for a program that is no RPC server, or that cannot store the weights that it receives."""
    done = sandbox.run_in_sandbox(sandbox_settings, [binary, "--help"], SECONDS)
    help_text = done.out + done.err
    if "--threads" not in help_text or "--cache" not in help_text:
        raise BadRequest(
            f"{binary} is no ggml-rpc-server of llama.cpp: its --help does not offer --threads and --cache. Build "
            "llama.cpp with GGML_RPC=ON, and name the program with binary."
        )


def render_worker_unit(worker: RpcWorker, programs: Mapping[str, list[int]]) -> str:
    """Return the text of a worker's unit; ``programs`` has size and time of the last change of each program file."""
    binary = worker.options.binary
    plan = {"address": worker.address, "expect": worker.expect, "programs": dict(programs)}
    lines = [
        "[Unit]",
        "Description=RPC worker for a model on another host",
        "Wants=network-online.target",
        f"After=network-online.target {BOOT_SERVICE}",
        # Starts may fail for long, because the worker's address may come late, such as the address of a tunnel.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        *hardening.user_setting_lines(worker.options),
        f"StateDirectory={STATE}",
        "StateDirectoryMode=0700",
        f"Environment=LLAMA_CACHE={FOLDERS[0]}",
        f"ExecStart={format_unit_command_line(binary, worker.arguments)}",
        "TimeoutStopSec=10",
        "Restart=always",
        "RestartSec=2",
        "OOMPolicy=stop",
        *cpu_and_memory_lines(worker.placement),
        *hardening.allowed_address_lines(worker.clients),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([binary]),
        "",
        "[Install]",
        f"WantedBy={BOOT_TARGET}",
    ]
    return append_digest_line("\n".join([INSTANCE_HEAD, *lines, f"\n{PLAN_MARK}{json.dumps(plan, sort_keys=True)}\n"]))
