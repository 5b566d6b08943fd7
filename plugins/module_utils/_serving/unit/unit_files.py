# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders the unit files of a planned instance of any engine. The module unit/instance.py writes them.

Source: systemd.service(5), systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

import json

from ..._io import sandbox
from ..._io.paths import BOOT_SERVICE, HOST_TOOL, INSTANCE_HEAD, UNIT_FOLDER
from ..._notation.cpulist import format_cpulist
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.unit_syntax import format_unit_command_line, quote_unit_word
from ..catalogue import LLAMA
from ..options import unit_settings
from ..options.unit_names import api_key_path_in_unit, watchdog_unit_name
from . import hardening, start_limits
from .installed import PLAN_MARK, append_digest_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalogue import EngineRow
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan, Placement

SYSTEMD_RUN = "/usr/bin/systemd-run"
#: A client that repeats a failing request writes a line each time, which would push all else out of the journal.
LOG_LIMITS = ("LogRateLimitIntervalSec=30", "LogRateLimitBurst=1000")
LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class UnitParts:
    """The lines and settings that only one engine has in the unit of its server."""

    def __init__(self, program: str, arguments: Sequence[str], title: str) -> None:
        self.program = program
        self.arguments = arguments
        self.title = title
        #: False for a part of an instance on several hosts whose requests another host answers.
        self.answers_requests = True
        #: Units that are started before this one.
        self.needed_units: Sequence[str] = ()
        #: Folders whose file systems must be mounted before the start, and files that the server reads.
        self.mounted_folders: Sequence[str] = ()
        self.visible_files: Sequence[str] = ()
        #: Lines of [Service] in the order of the file: before all commands, before the server starts, once it serves,
        #: once it has no request in progress, and after all commands.
        self.first_lines: Sequence[str] = ()
        self.lines_before_start: Sequence[str] = ()
        self.lines_after_start: Sequence[str] = ()
        self.stop_lines: Sequence[str] = ()
        self.last_lines: Sequence[str] = ()
        #: More arguments of the hook that waits until the server serves, and of the one that requests a first answer.
        self.await_arguments: Sequence[str] = ()
        self.answer_arguments: Sequence[str] = ()
        #: The seconds that ``stop_lines`` may take beyond ``drain_timeout`` and ``stop_timeout``.
        self.save_seconds = 0
        #: More arguments of the command that waits until no request is in progress.
        self.drain_arguments: Sequence[str] = ()
        #: The only addresses that the server may exchange packets with; None for all.
        self.allowed_addresses: Sequence[str] | None = None
        #: True for a server that needs other hosts, which may be down for long.
        self.needs_other_hosts = False
        #: The value of Restart= in the unit.
        self.restart_policy = "on-failure"
        self.hardening: Sequence[str] = sandbox.HARDENING


def list_addresses_of_clients(options: OptionTable) -> list[str] | None:
    """Return the addresses with which the unit may exchange packets, in either direction; None for all addresses."""
    if options.host in LOOPBACK:
        return ["localhost"]
    if not options.clients:
        return None
    # The host itself checks at the server's own address whether the server serves.
    own = [] if options.host in LOOPBACK_BY_WILDCARD else [options.host]
    return ["localhost", *own, *options.clients]


def render_server_unit_by_path(
    row: EngineRow,
    service: InstancePlan,
    parts: UnitParts,
    programs: Mapping[str, list[int]] | None = None,
    keys_changed_at: int | None = None,
) -> dict[str, str]:
    """Return the text of the unit of a server by the path of its file.

    ``programs`` are the files of its program, each with size and time of the last change, and ``keys_changed_at`` is
    the time of the last change of its file of API keys, both in ns. They are in the text, so that a replaced file
    changes the unit and the server is restarted.
    """
    plan = render_json_plan_section(
        row,
        service,
        server_url_on_this_host(service.options) if parts.answers_requests else "",
        programs or {},
        keys_changed_at,
    )
    return {f"{UNIT_FOLDER}/{service.unit}": append_digest_line(f"{_render_server_unit(row, service, parts)}\n{plan}")}


def server_url_on_this_host(options: OptionTable) -> str:
    return f"http://{format_endpoint(LOOPBACK_BY_WILDCARD.get(options.host, options.host), options.port)}"


def format_endpoint(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _render_server_unit(row: EngineRow, service: InstancePlan, parts: UnitParts) -> str:
    options = service.options
    is_local = options.host in LOOPBACK and not parts.needs_other_hosts
    start_timeout = start_limits.compute_start_timeout(service)
    unit = [
        f"Description={parts.title}",
        *start_order_lines(is_local, BOOT_SERVICE, *parts.needed_units),
        *([f"Requires={' '.join(parts.needed_units)}"] if parts.needed_units else []),
        "RequiresMountsFor="
        + " ".join(quote_unit_word(path, escape_variables=False) for path in parts.mounted_folders),
        *start_limit_lines(service, parts.needs_other_hosts),
        *unit_settings.format_section_lines(options.unit_settings, is_unit_section=True),
    ]
    run = [
        "Type=exec",
        *hardening.user_setting_lines(options),
        *([f"LoadCredential=api-key:{options.api_key_file.replace('%', '%%')}"] if options.api_key_file else []),
        *parts.first_lines,
        *parts.lines_before_start,
        f"ExecStart={format_unit_command_line(parts.program, parts.arguments)}",
        *(_wait_for_first_answer_lines(row, service, parts, start_timeout) if parts.answers_requests else []),
        *parts.lines_after_start,
        *(_watchdog_lines(service) if parts.answers_requests else []),
        *(_drain_lines(row, service, parts) if parts.answers_requests else []),
        *parts.stop_lines,
        # TimeoutStartSec holds for each step of a start, so the slowest step decides. TimeoutStopSec holds for draining
        # and saving too.
        f"TimeoutStartSec={start_timeout + start_limits.MARGIN}",
        f"TimeoutStopSec={options.drain_timeout + parts.save_seconds + options.stop_timeout}",
        *restart_lines(options, parts.restart_policy),
        *LOG_LIMITS,
        *cpu_and_memory_lines(service.placement),
        *parts.last_lines,
        *([] if parts.allowed_addresses is None else hardening.allowed_address_lines(parts.allowed_addresses)),
        *parts.hardening,
        *sandbox.visible_folder_settings([*parts.visible_files, parts.program]),
        *unit_settings.format_section_lines(options.unit_settings, is_unit_section=False),
    ]
    return render_unit_text(unit, run, ["WantedBy=multi-user.target"])


def _wait_for_first_answer_lines(row: EngineRow, service: InstancePlan, parts: UnitParts, seconds: int) -> list[str]:
    """Return the lines that wait until the server serves, and that then request a first answer.

    They are two, so that systemd has the time at which the server began to serve.
    """
    url, asker = server_url_on_this_host(service.options), [*hook_engine_arguments(row)]
    commands = (
        ("await", url, "--timeout", seconds, *asker, *parts.await_arguments),
        (
            *("answer", url, "--task", service.options.task, "--timeout", start_limits.FIRST_ANSWER_SECONDS),
            *(*asker, *parts.answer_arguments),
        ),
    )
    # Only root can read the credential of the server through its process; see hooks/keys.py.
    prefix = "+" if service.options.api_key_file else ""
    return [
        "ExecStartPost="
        + prefix
        + format_unit_command_line(HOST_TOOL, [*host_tool_hook_arguments(*words), *hook_credential_arguments(service)])
        for words in commands
    ]


def _drain_lines(row: EngineRow, service: InstancePlan, parts: UnitParts) -> list[str]:
    options = service.options
    words = host_tool_hook_arguments(
        "drain", server_url_on_this_host(options), "--timeout", options.drain_timeout, *hook_engine_arguments(row)
    )
    line = format_unit_command_line(HOST_TOOL, [*words, *parts.drain_arguments, *hook_credential_arguments(service)])
    # Only root can read the credential of the server through its process; see hooks/keys.py.
    return [f"ExecStop=-{'+' if options.api_key_file else ''}{line}"]


def hook_credential_arguments(service: InstancePlan) -> list[str]:
    """Return the arguments by which a hook finds the API key that the server has loaded."""
    return ["--credential", api_key_path_in_unit(service.unit)] if service.options.api_key_file else []


def hook_engine_arguments(row: EngineRow) -> list[str]:
    return [] if row is LLAMA else ["--engine", row.key]


def host_tool_hook_arguments(*words: object) -> list[str]:
    """Return the arguments of the host tool for a hook: a command that a unit runs."""
    return ["llama", *(str(word) for word in words)]


def _watchdog_lines(service: InstancePlan) -> list[str]:
    """Return the line that starts the watchdog, which kills a server that hangs, in a transient unit.

    That unit ends with the unit of the server, and starts after it: ``--no-block``, because the latter waits for this
    command.
    """
    options, cpus = service.options, service.placement.http_cpus
    if options.watchdog is None:
        return []
    properties = [f"BindsTo={service.unit}", f"After={service.unit}", "Restart=on-failure"]
    properties += [f"CPUAffinity={format_cpulist(cpus)}"] if cpus else []
    # It runs as root and reads answers of a server that may be hostile.
    properties += ["ProtectSystem=strict", "PrivateDevices=yes", *sandbox.ROOT_READER_HARDENING]
    properties += hardening.network_restriction_lines(LOOPBACK_BY_WILDCARD.get(options.host, options.host))
    words = ["--quiet", "--collect", "--no-block", f"--unit={watchdog_unit_name(service.name)}"]
    words += [f"--property={line}" for line in properties]
    words += [
        HOST_TOOL,
        *host_tool_hook_arguments(
            "watch", server_url_on_this_host(options), "--unit", service.unit, "--timeout", options.watchdog
        ),
    ]
    words += ["--key-file", options.api_key_file] if options.api_key_file else []
    return [f"ExecStartPost=-+{format_unit_command_line(SYSTEMD_RUN, words)}"]


def start_order_lines(listens_on_loopback: bool, *units: str) -> list[str]:
    """Return which units must be started first: with an address outside of the loopback, the network too."""
    if listens_on_loopback:
        return [f"After={' '.join(('network.target', *units))}"]
    return ["Wants=network-online.target", f"After={' '.join(('network-online.target', *units))}"]


def start_limit_lines(service: InstancePlan, without_limit: bool = False) -> list[str]:
    """Return how often a unit may start; without limit for a unit that needs hosts which may be down for long."""
    interval = 0 if without_limit else start_limits.compute_start_limit_interval(service)
    return [f"StartLimitIntervalSec={interval}", f"StartLimitBurst={service.options.restart_limit}"]


def restart_lines(options: OptionTable, when: str = "on-failure") -> list[str]:
    return [f"Restart={when}", f"RestartSec={options.restart_seconds}", "OOMPolicy=stop"]


def cpu_and_memory_lines(placement: Placement) -> list[str]:
    """Return the settings that keep a unit on its CPUs and its memory on its nodes."""
    lines = [f"Slice={placement.slice}"] if placement.slice else []
    lines.append(f"AllowedCPUs={format_cpulist(placement.cpus)}")
    if placement.affinity:
        lines.append(f"CPUAffinity={format_cpulist(placement.affinity)}")
    if placement.policy in ("bind", "interleave"):
        lines += [f"NUMAPolicy={placement.policy}", f"NUMAMask={format_cpulist(placement.nodes)}"]
    return [*lines, *hardening.environment_variable_lines(placement.environment)]


def render_json_plan_section(
    row: EngineRow, service: InstancePlan, url: str, programs: Mapping[str, list[int]], keys_changed_at: int | None
) -> str:
    """Return the last section of a unit: one line of JSON, with which the running instance is compared later.

    The section has size and time of the program, of the models and of the keys. So a file that is replaced under its
    name changes the unit, and the server is restarted.
    """
    rpc = service.rpc
    plan = {
        "name": service.name,
        "engine": row.key,
        "unit": service.unit,
        "url": url,
        "key_file": service.options.api_key_file,
        "task": service.options.task,
        "speculation": service.parameters.get("speculation", []),
        "expect": service.expect,
        "rpc": {"unit": rpc.unit, "expect": rpc.expect} if rpc else None,
        "files": service.files,
        "programs": dict(programs),
        "keys": keys_changed_at,
        "models": list(service.options.models),
        "mapped": service.mapped,
        "rate": service.rate,
        "details": service.details,
    }
    return f"{PLAN_MARK}{json.dumps(plan, sort_keys=True)}\n"


def render_unit_text(unit: Sequence[str], service: Sequence[str], install: Sequence[str]) -> str:
    """Return the text of a unit with these three sections, below the line that names the collection as its writer."""
    sections = (("Unit", unit), ("Service", service), ("Install", install))
    texts = ["\n".join([f"[{name}]", *lines, ""]) for name, lines in sections if lines]
    return "\n".join([INSTANCE_HEAD, *texts])
