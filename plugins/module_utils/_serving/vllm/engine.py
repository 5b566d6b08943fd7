# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""vLLM as an engine of instances: the arguments and the unit of its server, on one host or as a part of a group."""

from __future__ import annotations

from ..._io.paths import HOST_TOOL
from ..._notation.ip_addresses import format_endpoint
from ..catalogue import VLLM
from ..unit import hardening
from ..unit.engine import Engine
from ..unit.refusals import require_readable_files
from ..unit.shared_host import read_free_memory_for_instance
from ..unit.unit_files import UnitParts, list_addresses_of_clients, render_server_unit_by_path
from . import plan, probe
from .options import VllmOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan
    from ..unit.engine import HeldMemory
    from .plan import Member
    from .probe import Capabilities

#: Passes the key, the first line of the file that has text, in a variable: all users of the host can see arguments.
RUN_WITH_KEY = 'VLLM_API_KEY=$(grep -m 1 . "$CREDENTIALS_DIRECTORY/api-key") && export VLLM_API_KEY && exec "$@"'
#: The folders and switches of vLLM: its user has no home for caches, and it must not contact other hosts.
STATE_VARIABLES = (
    "HOME=%S/{0} XDG_CACHE_HOME=%S/{0}/cache",
    "VLLM_CACHE_ROOT=%S/{0}/cache/vllm",
    "TORCHINDUCTOR_CACHE_DIR=%S/{0}/cache/inductor",
    "VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1",
)


class VllmEngine(Engine):
    """Instances of vLLM; ``member`` is this host's place in a group of hosts, and names the instance of the group."""

    row = VLLM
    options = VllmOptions

    def __init__(self, member: Member | None = None) -> None:
        self.member = member

    def read_capabilities(self, host: Host, options: VllmOptions) -> Capabilities:
        return probe.read_vllm_capabilities(host, options)

    def list_model_paths(self, options: VllmOptions) -> list[str]:
        return [options.model]

    def plan_instance(
        self,
        host: Host,
        options: VllmOptions,
        capabilities: Capabilities,
        held: Sequence[HeldMemory],
        before: Sequence[InstancePlan],
    ) -> InstancePlan:
        free = read_free_memory_for_instance(host, options, [], held, before)
        member = self._find_member_of_this_host(options)
        service = plan.plan_vllm_instance(options, host, capabilities, free, before, member)
        service.placement.environment = self._build_process_environment(service, capabilities, member)
        return service

    def has_unit_on_this_host(self, service: InstancePlan) -> bool:
        return not service.options.workers or self._find_member_of_this_host(service.options) is not None

    def build_arguments(self, service: InstancePlan, capabilities: Capabilities) -> list[str]:
        options, member = service.options, self._find_member_of_this_host(service.options)
        ranks = len(service.parameters["ranks"]) * service.parameters["hosts"]
        words = ["--served-model-name", options.alias]
        if member is None or member.port is None:
            words += ["--host", options.host, "--port", options.port]
        words += ["--dtype", options.dtype, "--max-num-seqs", options.slots, "--tensor-parallel-size", ranks]
        words += _build_group_arguments(options, member) if member else []
        words += ["--max-model-len", options.context] if options.context else []
        words += [] if options.compile else ["--enforce-eager"]
        for flag, value in (
            ("--kv-cache-memory-bytes", options.kv_cache_bytes),
            ("--shutdown-timeout", options.drain_timeout),
        ):
            words += [flag, value] if flag in capabilities.flags else []
        program = capabilities.serve_group if member else capabilities.serve
        return [str(word) for word in (*program, options.model, *words, *options.extra_arguments)]

    def try_program_in_sandbox(
        self, host: Host, service: InstancePlan, capabilities: Capabilities, arguments: Sequence[str]
    ) -> list[str]:
        files, options = list(service.files), service.options
        require_readable_files(options, files, [], hardening.trial_sandbox_lines(options, files, probe.VLLM_HARDENING))
        return []

    def render_units(
        self,
        service: InstancePlan,
        arguments: Sequence[str],
        programs: Mapping[str, list[int]],
        keys_changed_at: int | None,
    ) -> dict[str, str]:
        """Return the unit of the server. On a member of a group, its program is the supervisor of the group."""
        options, member = service.options, self._find_member_of_this_host(service.options)
        command = list(arguments)
        if options.api_key_file:
            command = ["/bin/sh", "-c", RUN_WITH_KEY, "vllm", *command]
        if member:
            command = [*_supervisor_command(options, member), *command]
        hosts = service.parameters["hosts"]
        title = f"vLLM {service.name}{f' on {hosts} hosts' if hosts > 1 else ''}"
        parts = UnitParts(command[0], command[1:], title)
        parts.answers_requests = member is None or member.port is None
        parts.mounted_folders = [options.model, options.folder]
        parts.visible_files = list(service.files)
        parts.answer_arguments = ["--alias", options.alias]
        state = service.unit[: -len(".service")]
        parts.first_lines = [
            f"StateDirectory={state}",
            *(f"Environment={text.format(state)}" for text in STATE_VARIABLES),
            # Only the main process gets the signal to end; the other processes are killed when they outlive it.
            "KillMode=mixed",
            "LimitNOFILE=65536",
        ]
        parts.last_lines = [f"AllowedMemoryNodes={service.expect['nodes']}"]
        parts.allowed_addresses = _allowed_addresses(options, member)
        parts.needs_other_hosts = member is not None
        parts.restart_policy = "always" if member else "on-failure"
        parts.hardening = probe.VLLM_HARDENING
        return render_server_unit_by_path(VLLM, service, parts, programs, keys_changed_at)

    def _find_member_of_this_host(self, options: OptionTable) -> Member | None:
        """Return this host's place in the group of an instance; None for a host outside of the group."""
        return self.member if self.member and self.member.instance == options.name else None

    def _build_process_environment(
        self, service: InstancePlan, capabilities: Capabilities, member: Member | None
    ) -> dict[str, str]:
        options = service.options
        variables: dict[str, Any] = {"VLLM_CPU_OMP_THREADS_BIND": "|".join(service.parameters["ranks"])}
        if member:
            variables.update(VLLM_HOST_IP=member.addresses[member.rank], GLOO_SOCKET_IFNAME=member.interface)
        if not options.compile:
            # Without this, vLLM would compile the mask of a divided embedding at the first request, with g++ and
            # openssl.
            variables["TORCHDYNAMO_DISABLE"] = "1"
        if "--kv-cache-memory-bytes" not in capabilities.flags:
            variables["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, options.kv_cache_bytes >> 30))
        return {**dict(sorted(variables.items())), **options.extra_environment}


def _build_group_arguments(options: OptionTable, member: Member) -> list[Any]:
    """Return the arguments by which the processes of a group find each other."""
    words = ["--distributed-executor-backend", "mp", "--nnodes", len(member.addresses), "--node-rank", member.rank]
    words += ["--master-addr", member.addresses[0], "--master-port", options.group_port]
    return words if member.port is None else [*words, "--headless"]


def _supervisor_command(options: OptionTable, member: Member) -> list[str]:
    """Return the words that run a command under the supervisor, which starts and ends all parts of a group together."""
    if member.port is None:
        return [HOST_TOOL, "group", "lead", ",".join(options.workers), "--"]
    return [HOST_TOOL, "group", "follow", format_endpoint(member.addresses[member.rank], member.port), "--"]


def _allowed_addresses(options: OptionTable, member: Member | None) -> list[str] | None:
    """Return the addresses that the unit may exchange packets with; None for all."""
    if member:
        clients = list_addresses_of_clients(options) or [] if member.port is None else []
        return list(dict.fromkeys(["localhost", *member.addresses, *clients]))
    return list_addresses_of_clients(options)
