# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit files of a planned instance, as systemd reads them. Nothing is written here.

Source: systemd.service(5), systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

import json
import os

from ..._io import sandbox
from ..._io.paths import BOOT_SERVICE, HOST_TOOL, INSTANCE_HEAD, UNIT_FOLDER
from ..._notation.cpulist import format_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.systemd import format_command_line, quote_word
from ..options import router, rpc_endpoints, unit_settings
from ..options.option_table import LOOPBACK
from ..options.unit_names import key_path, unit_of, watchdog_unit_of
from ..plan.cpu_assignment import GOMP, STRICT
from ..plan.instance_plan import staging_folder
from . import timing, walls
from .installed import SECTION, sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..options.options import Options
    from ..plan.instance_plan import Placement, Rpc, Service

RPC_SERVER = "ggml-rpc-server"
SYSTEMD_RUN = "/usr/bin/systemd-run"
#: A client that fails in a loop, a line each time, shall not push all else out of the journal.
LOG = ("LogRateLimitIntervalSec=30", "LogRateLimitBurst=1000")
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def unit_files(
    service: Service, arguments: Sequence[str], programs: Mapping[str, list[int]] | None = None, keys: int | None = None
) -> dict[str, str]:
    """Return path -> text of all units of an instance; ``arguments`` are those of its server.

    ``programs`` are the files of its programs, each with size and time of the last change, ``keys`` is the time of the
    last change of its file of keys, both in nanoseconds: what was replaced since changes the text of the unit.
    """
    plan = plan_section(service, url_of(service.options), programs or {}, keys)
    files = {f"{UNIT_FOLDER}/{service.unit}": sealed(f"{_main(service, arguments)}\n{plan}")}
    if service.rpc:
        files[f"{UNIT_FOLDER}/{service.rpc.unit}"] = sealed(_rpc(service, service.rpc))
    return files


def url_of(options: Options) -> str:
    """Return where this host reaches the server."""
    host = ANYWHERE.get(options.host, options.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{options.port}"


def rpc_binary(options: Options) -> str:
    """Return the program that drafts for an instance on a CCD of its own."""
    return str(options.rpc_binary or os.path.join(os.path.dirname(options.binary), RPC_SERVER))


def _main(service: Service, arguments: Sequence[str]) -> str:
    options, rpc = service.options, service.rpc
    start_timeout = timing.start_timeout(service)
    paths = [*service.files, *map(os.path.realpath, service.files)]
    mounts = [*sorted({os.path.dirname(path) for path in paths}), *([options.hugetlbfs] if service.staged else [])]
    unit = [
        f"Description=llama-server {service.name}",
        *_after("" if options.rpc_workers else options.host, BOOT_SERVICE, *([rpc.unit] if rpc else [])),
        *([f"Requires={rpc.unit}"] if rpc else []),
        f"RequiresMountsFor={' '.join(quote_word(path, escape_variables=False) for path in mounts)}",
        *_limits(service),
        *unit_settings.lines(options.unit_settings, of_unit=True),
    ]
    key = key_path(unit_of(service.name))
    asks = ["--credential", key] if options.api_key_file else []
    # What the server says of its health it says without a key, and of its models with one.
    awaited = [*_of_models(router.first(options)), *(asks if options.models else [])]
    serves = _serving("await", url_of(options), "--timeout", start_timeout, *awaited)
    drain = _serving("drain", url_of(options), "--timeout", options.drain_timeout, *_of_models(options.models), *asks)
    run = [
        "Type=exec",
        *walls.user(options),
        *([f"LoadCredential=api-key:{options.api_key_file.replace('%', '%%')}"] if options.api_key_file else []),
        *router.lines(options),
        # What a plus sign precedes runs as root and outside of the sandbox.
        *(f"ExecStartPre=+{format_command_line(HOST_TOOL, words)}" for words in _before(service)),
        *_reach(service, start_timeout),
        f"ExecStart={format_command_line(options.binary, arguments)}",
        f"ExecStartPost={'+' if options.models and asks else ''}{format_command_line(HOST_TOOL, serves)}",
        *_move_http_threads(service.placement),
        *_watchdog(service),
        # Only root can look for the credential where the server has it; see hooks/keys.py.
        f"ExecStop=-{'+' if options.api_key_file else ''}{format_command_line(HOST_TOOL, drain)}",
        # A server ends at once when it is idle, and with a request in flight only at the second signal, which is
        # systemd's own after these two.
        "ExecStop=-/bin/kill -TERM $MAINPID",
        f"ExecStop=-/usr/bin/timeout {options.stop_timeout} /usr/bin/tail -s 0.1 --pid=${{MAINPID}} -f /dev/null",
        # Each step of the start may take as long as the slowest. The limit of the stop holds for draining too.
        f"TimeoutStartSec={start_timeout + timing.MARGIN}",
        f"TimeoutStopSec={options.drain_timeout + options.stop_timeout}",
        *_restart(options),
        *LOG,
        *placement_lines(service.placement),
        *(["LimitMEMLOCK=infinity"] if service.wants["load"] == "mlock" else []),
        *walls.network(options.host, [address for address, dummy in rpc_endpoints.endpoints(options.rpc_workers)]),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([*service.files, options.binary]),
        *unit_settings.lines(options.unit_settings, of_unit=False),
    ]
    return _text(unit, run, ["WantedBy=multi-user.target"])


def _rpc(service: Service, rpc: Rpc) -> str:
    options = service.options
    binary = rpc_binary(options)
    unit = [
        f"Description=Draft model of llama-server {service.name}",
        *_after(LOOPBACK[0], BOOT_SERVICE),
        f"PartOf={service.unit}",
        *_limits(service),
    ]
    run = [
        "Type=exec",
        *walls.user(options),
        f"ExecStart={format_command_line(binary, rpc.arguments)}",
        f"TimeoutStopSec={options.stop_timeout}",
        *_restart(options),
        *LOG,
        *placement_lines(rpc.placement),
        *walls.network(LOOPBACK[0]),
        *sandbox.HARDENING,
        *sandbox.visible_folder_settings([binary]),
    ]
    return _text(unit, run, [])


def plan_section(service: Service, url: str, programs: Mapping[str, list[int]], keys: int | None) -> str:
    """Return the end of a unit's text: in one line, what the running instance can be held against.

    What it loads once is in it, so that a program, a model or keys that are replaced under their name change the unit,
    and are loaded anew.
    """
    rpc = service.rpc
    plan = {
        "name": service.name,
        "url": url,
        "key_file": service.options.api_key_file,
        "task": service.options.task,
        "speculation": service.wants.get("speculation", []),
        "expect": service.expect,
        "rpc": {"unit": rpc.unit, "expect": rpc.expect} if rpc else None,
        "files": service.files,
        "programs": dict(programs),
        "keys": keys,
        "models": list(service.options.models),
        "mapped": service.mapped,
    }
    return f"{SECTION}{json.dumps(plan, sort_keys=True)}\n"


def _text(unit: Sequence[str], service: Sequence[str], install: Sequence[str]) -> str:
    sections = (("Unit", unit), ("Service", service), ("Install", install))
    texts = ["\n".join([f"[{name}]", *lines, ""]) for name, lines in sections if lines]
    return "\n".join([INSTANCE_HEAD, *texts])


def _of_models(names: Collection[str]) -> list[str]:
    return ["--models", ",".join(names)] if names else []


def _serving(*words: object) -> list[str]:
    return ["llama", *(str(word) for word in words)]


def _before(service: Service) -> list[list[str]]:
    """Return what brings the files to their nodes before they are read."""
    placement = service.placement
    nodes = format_cpulist(placement.nodes)
    # Of a model in several files the first one stands for all.
    files = [path for path in service.files if list_gguf_parts(path)[0] == path]
    if service.staged:
        policy = "interleave" if placement.policy == "interleave" else "bind"
        folder = staging_folder(service.options)
        return [
            _serving("stage", path, folder, "--nodes", nodes, "--policy", policy)
            for path in files
            if path in service.staged
        ]
    if service.wants["load"] != "mmap":
        return []
    if placement.policy == "rows":
        rows = service.expect["rows"]
        return [_serving("rows", path, "--threads", threads, "--nodes", nodes) for path, threads in rows.items()]
    policy = placement.policy if placement.policy in ("bind", "interleave") else "local"
    whole = [path for path in service.mapped if list_gguf_parts(path)[0] == path]
    return [_serving("place", path, "--policy", policy, "--nodes", nodes) for path in whole]


def _reach(service: Service, seconds: int) -> list[str]:
    """Wait for the workers on other hosts: the server aborts when it does not reach one, having read nothing yet."""
    if not service.options.rpc_workers:
        return []
    reach = _serving("reach", rpc_endpoints.named(service.options.rpc_workers), "--timeout", seconds)
    return [f"ExecStartPre={format_command_line(HOST_TOOL, reach)}"]


def _move_http_threads(placement: Placement) -> list[str]:
    """Send the threads that do not compute to their CPUs: with OpenMP they begin where those do that compute."""
    if not placement.http_cpus or placement.affinity is not None or placement.pinned not in (STRICT, GOMP):
        return []
    return [f"ExecStartPost=-+{quote_word(HOST_TOOL)} llama home $MAINPID --cpus {format_cpulist(placement.http_cpus)}"]


def _watchdog(service: Service) -> list[str]:
    """Start what kills a server that hangs, in a unit of its own that ends with this one, and has no file.

    It would wait for this one to be active, and this one for the command, so nothing waits for its start.
    """
    options, cpus = service.options, service.placement.http_cpus
    if options.watchdog is None:
        return []
    properties = {"BindsTo": service.unit, "After": service.unit, "Restart": "on-failure"}
    if cpus:
        properties["CPUAffinity"] = format_cpulist(cpus)
    words = ["--quiet", "--collect", "--no-block", f"--unit={watchdog_unit_of(service.name)}"]
    words += [f"--property={key}={value}" for key, value in properties.items()]
    words += [HOST_TOOL, *_serving("watch", url_of(options), "--unit", service.unit, "--timeout", options.watchdog)]
    words += ["--key-file", options.api_key_file] if options.api_key_file else []
    return [f"ExecStartPost=-+{format_command_line(SYSTEMD_RUN, words)}"]


def _after(host: str, *units: str) -> list[str]:
    """Return what comes before; an address beside the loopback is there only when the network is online."""
    if host in LOOPBACK:
        return [f"After={' '.join(('network.target', *units))}"]
    return ["Wants=network-online.target", f"After={' '.join(('network-online.target', *units))}"]


def _limits(service: Service) -> list[str]:
    # A worker may be away for a long time, as for repair, and whoever brings it back may know nothing of this host.
    interval = 0 if service.options.rpc_workers else timing.interval(service)
    return [f"StartLimitIntervalSec={interval}", f"StartLimitBurst={service.options.restart_limit}"]


def _restart(options: Options) -> list[str]:
    return ["Restart=on-failure", f"RestartSec={options.restart_seconds}", "OOMPolicy=stop"]


def placement_lines(placement: Placement) -> list[str]:
    """Return the settings that keep a unit in its place."""
    lines = [f"Slice={placement.slice}"] if placement.slice else []
    lines.append(f"AllowedCPUs={format_cpulist(placement.cpus)}")
    if placement.affinity:
        lines.append(f"CPUAffinity={format_cpulist(placement.affinity)}")
    if placement.policy in ("bind", "interleave"):
        lines += [f"NUMAPolicy={placement.policy}", f"NUMAMask={format_cpulist(placement.nodes)}"]
    return [*lines, *walls.environment(placement.environment)]
