# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The RPC worker of a host as systemd has it: its unit, and the folder in which it keeps the weights that it was sent.

It asks nobody who they are, so that the kernel lets in the addresses only that its unit names.
Source: tools/rpc/rpc-server.cpp of llama.cpp (LLAMA_CACHE); systemd.exec(5), StateDirectory; IPAddressAllow in
systemd.resource-control(5).
"""

from __future__ import annotations

import json

from ..._errors import BadRequest
from ..._io import sandbox
from ..._io.paths import BOOT_SERVICE, INSTANCE_HEAD, UNIT_FOLDER
from ..._knobs.protocol.knob import Knob
from ..._notation.unit_syntax import format_command_line
from ..options.unit_names import WORKER_UNIT
from ..plan import free_memory
from ..plan.rpc_workers import parse_worker_addresses, parse_worker_options, plan_worker
from ..unit import hardening
from ..unit.installed import BOOT_TARGET, PLAN_MARK, append_digest
from ..unit.instance import Instance
from ..unit.unit_files import placement_lines
from . import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._knobs.protocol.knob import Settings
    from ..plan.rpc_workers import RpcWorker

PATH = f"{UNIT_FOLDER}/{WORKER_UNIT}"
#: Its folder for systemd, and where that is; the user that systemd makes for it has it below "private".
STATE = "ggml-rpc-worker"
FOLDERS = (f"/var/lib/{STATE}", f"/var/lib/private/{STATE}")
SECONDS = 60


class WorkerUnit(Instance):
    """The unit of the worker, written, started, and with no files gone again with the weights that it kept."""

    def __init__(self, files: Mapping[str, str], root: str = "/") -> None:
        super().__init__(STATE, files, None, root)
        self.main_unit = WORKER_UNIT
        self.names = [WORKER_UNIT]
        self.folders = list(FOLDERS)
        self.started_by = {WORKER_UNIT: BOOT_TARGET}


class WorkerPlan(Knob):
    """Changes nothing, and tells what was planned."""

    has_originals = needs_ledger = False

    def __init__(self, worker: RpcWorker) -> None:
        self.worker = worker

    def wanted_settings(self) -> Settings:
        """Return nothing."""
        return {}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return nothing."""
        return {}

    def module_facts(self) -> dict[str, object]:
        """Return the plan as plain data."""
        return {"worker": self.worker.to_dict()}


def worker_knobs(host: Host, request: Mapping[str, Any], root: str = "/") -> list[Knob]:
    """Return what brings the worker to the host, or takes it away; BadRequest where it cannot be there."""
    if request["state"] == "absent":
        return [WorkerUnit({}, root)]
    missing = [key for key in ("binary", "address", "port") if request[key] is None]
    if missing:
        raise BadRequest(f"{missing[0]} is missing, without which there is no worker. Set it.")
    options = parse_worker_options(request)
    parse_worker_addresses(request)
    behind = [
        *hardening.user_lines(options),
        *hardening.network_lines("127.0.0.1"),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([options.binary]),
    ]
    files, openmp = probe.probe_program(options.binary, behind)
    _require_rpc_server(options.binary, behind)
    worker = plan_worker(host, request, openmp, free_memory.read_free_memory(host, options, []))
    return [WorkerUnit({PATH: render_worker_unit(worker, files)}, root), WorkerPlan(worker)]


def _require_rpc_server(binary: str, sandbox_settings: Sequence[str]) -> None:
    """Raise BadRequest for a program that does not keep weights when it is told so, or is no RPC server at all."""
    done = sandbox.run_in_sandbox(sandbox_settings, [binary, "--help"], SECONDS)
    said = done.out + done.err
    if "--threads" not in said or "--cache" not in said:
        raise BadRequest(
            f"{binary} is no ggml-rpc-server of llama.cpp: its --help does not offer --threads and --cache. Build "
            "llama.cpp with GGML_RPC=ON, and name the program with binary."
        )


def render_worker_unit(worker: RpcWorker, programs: Mapping[str, list[int]]) -> str:
    """Return the unit; ``programs`` are its files, each with size and time of the last change."""
    binary = worker.options.binary
    plan = {"address": worker.address, "expect": worker.expect, "programs": dict(programs)}
    lines = [
        "[Unit]",
        "Description=RPC worker for a model on another host",
        "Wants=network-online.target",
        f"After=network-online.target {BOOT_SERVICE}",
        # Its address may come late, as that of a tunnel does.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        *hardening.user_lines(worker.options),
        f"StateDirectory={STATE}",
        "StateDirectoryMode=0700",
        f"Environment=LLAMA_CACHE={FOLDERS[0]}",
        f"ExecStart={format_command_line(binary, worker.arguments)}",
        "TimeoutStopSec=10",
        "Restart=always",
        "RestartSec=2",
        "OOMPolicy=stop",
        *placement_lines(worker.placement),
        *hardening.allowed_address_lines(worker.clients),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([binary]),
        "",
        "[Install]",
        f"WantedBy={BOOT_TARGET}",
    ]
    return append_digest("\n".join([INSTANCE_HEAD, *lines, f"\n{PLAN_MARK}{json.dumps(plan, sort_keys=True)}\n"]))
