# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit files of a planned instance, as systemd reads them. Nothing is written here.

Source: systemd.service(5), systemd.exec(5), systemd.resource-control(5), and systemd.syntax(7) for quoting.
"""

from __future__ import annotations

import json
import os
import re

from ..._io.paths import COMMAND, SERVICE, UNIT_FOLDER
from ..._notation import cpulist
from ..plan.memory import staging_folder
from ..plan.names import key_path
from ..plan.options import LOOPBACK
from ..plan.pins import GOMP, STRICT
from .installed import HEAD, SECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..plan.options import Options
    from ..plan.service import Placement, Rpc, Service

RPC_SERVER = "ggml-rpc-server"
#: Folders that the sandbox hides or makes anew; a file in one of them is shown to the service all the same.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
#: Words that mean the same without quotes.
PLAIN = re.compile(r"[][A-Za-z0-9_./:,=@+-]+\Z")
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: What every one of our services is denied. It keeps the calls by which threads choose their CPUs, and no others of
#: @resources; /proc/meminfo must be there, where glibc reads the size of huge pages.
HARDENING = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "ProtectSystem=strict",
    "ProtectHome=tmpfs",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "DevicePolicy=closed",
    "PrivateUsers=yes",
    "PrivateIPC=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "RestrictAddressFamilies=AF_INET AF_INET6",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RemoveIPC=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "KeyringMode=private",
    "UMask=0077",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    "SystemCallFilter=sched_setaffinity",
    "SystemCallErrorNumber=EPERM",
)


def quote(word: str, variables: bool = True) -> str:
    """Return a word as systemd gives it back unchanged; ``variables`` where it would put those of a service in."""
    if PLAIN.match(word):
        return word
    text = ""
    for char in word:
        if char in '\\"':
            text += f"\\{char}"
        elif ord(char) < 32 or ord(char) == 127:
            text += f"\\x{ord(char):02x}"
        elif char == "%" or (char == "$" and variables):
            text += char * 2
        else:
            text += char
    return f'"{text}"'


def command(program: str, words: Iterable[str]) -> str:
    """Return a command line; systemd puts no variables into the name of the program."""
    return " ".join([quote(program, variables=False), *map(quote, words)])


def unit_files(service: Service, arguments: Sequence[str]) -> dict[str, str]:
    """Return path -> text of all units of an instance; ``arguments`` are those of its server."""
    files = {f"{UNIT_FOLDER}/{service.unit}": _main(service, arguments)}
    if service.rpc:
        files[f"{UNIT_FOLDER}/{service.rpc.unit}"] = _rpc(service, service.rpc)
    return files


def url_of(options: Options) -> str:
    """Return where this host reaches the server."""
    host = ANYWHERE.get(options.host, options.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{options.port}"


def _main(service: Service, arguments: Sequence[str]) -> str:
    options, rpc = service.options, service.rpc
    after = ["network.target", SERVICE, *([rpc.unit] if rpc else [])]
    read = sorted({os.path.dirname(path) for path in service.files})
    mounts = [*read, *([options.hugetlbfs] if service.staged else [])]
    unit = [
        f"Description=llama-server {service.name}",
        f"After={' '.join(after)}",
        *([f"Requires={rpc.unit}"] if rpc else []),
        f"RequiresMountsFor={' '.join(quote(path, variables=False) for path in mounts)}",
        *_limits(options),
    ]
    key = key_path(service.name)
    drain = [*_llama("drain", url_of(options), "--timeout", options.drain_timeout)]
    drain += ["--key-file", key] if options.api_key_file else []
    run = [
        "Type=exec",
        *_user(options),
        *([f"LoadCredential=api-key:{options.api_key_file.replace('%', '%%')}"] if options.api_key_file else []),
        # What the plus sign precedes runs as root and outside of the sandbox.
        *(f"ExecStartPre=+{command(COMMAND, words)}" for words in _before(service)),
        f"ExecStart={command(options.binary, arguments)}",
        f"ExecStartPost={command(COMMAND, _llama('await', url_of(options), '--timeout', options.start_timeout))}",
        *_move_http_threads(service.placement),
        f"ExecStop=-{command(COMMAND, drain)}",
        # A server ends at once when it is idle, and with a request in flight only at the second signal, which is
        # systemd's own after these two.
        "ExecStop=-/bin/kill -TERM $MAINPID",
        f"ExecStop=-/usr/bin/timeout {options.stop_timeout} /usr/bin/tail -s 0.1 --pid=${{MAINPID}} -f /dev/null",
        # Each step of the start may take as long as the slowest. The limit of the stop holds for draining too.
        f"TimeoutStartSec={options.start_timeout + 30}",
        f"TimeoutStopSec={options.drain_timeout + options.stop_timeout}",
        *_restart(options),
        *_placement(service.placement),
        *(["LimitMEMLOCK=infinity"] if service.wants["load"] == "mlock" else []),
        *_network(options.host),
        *HARDENING,
        *_shown([*read, os.path.dirname(options.binary)]),
    ]
    return f"{_text(unit, run, ['WantedBy=multi-user.target'])}\n{plan_section(service, url_of(options))}"


def _rpc(service: Service, rpc: Rpc) -> str:
    options = service.options
    binary = options.rpc_binary or os.path.join(os.path.dirname(options.binary), RPC_SERVER)
    unit = [
        f"Description=Draft model of llama-server {service.name}",
        f"After=network.target {SERVICE}",
        f"PartOf={service.unit}",
        *_limits(options),
    ]
    run = [
        "Type=exec",
        *_user(options),
        f"ExecStart={command(binary, rpc.arguments)}",
        f"TimeoutStopSec={options.stop_timeout}",
        *_restart(options),
        *_placement(rpc.placement),
        *_network(LOOPBACK[0]),
        *HARDENING,
        *_shown([os.path.dirname(binary)]),
    ]
    return _text(unit, run, [])


def plan_section(service: Service, url: str) -> str:
    """Return the end of a unit's text: in one line, what the running instance can be held against.

    The files are in it so that a model which is replaced under its name changes the unit, and is read anew.
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
        "mapped": service.mapped,
    }
    return f"{SECTION}{json.dumps(plan, sort_keys=True)}\n"


def _text(unit: Sequence[str], service: Sequence[str], install: Sequence[str]) -> str:
    sections = (("Unit", unit), ("Service", service), ("Install", install))
    texts = ["\n".join([f"[{name}]", *lines, ""]) for name, lines in sections if lines]
    return "\n".join([HEAD, *texts])


def _llama(*words: object) -> list[str]:
    return ["llama", *(str(word) for word in words)]


def _before(service: Service) -> list[list[str]]:
    """Return what brings the files to their nodes before they are read."""
    placement = service.placement
    nodes = cpulist.render(placement.nodes)
    if service.staged:
        policy = "interleave" if placement.policy == "interleave" else "bind"
        folder = staging_folder(service.options)
        return [_llama("stage", path, folder, "--nodes", nodes, "--policy", policy) for path in service.staged]
    if service.wants["load"] != "mmap":
        return []
    policy = placement.policy if placement.policy in ("bind", "interleave") else "local"
    return [_llama("place", path, "--policy", policy, "--nodes", nodes) for path in service.mapped]


def _move_http_threads(placement: Placement) -> list[str]:
    """Send the threads that do not compute to their CPUs: with OpenMP they begin where those do that compute."""
    if not placement.http_cpus or placement.affinity is not None or placement.pinned not in (STRICT, GOMP):
        return []
    return [f"ExecStartPost=-+{quote(COMMAND)} llama home $MAINPID --cpus {cpulist.render(placement.http_cpus)}"]


def _limits(options: Options) -> list[str]:
    return [f"StartLimitIntervalSec={options.restart_limit_seconds}", f"StartLimitBurst={options.restart_limit}"]


def _restart(options: Options) -> list[str]:
    return ["Restart=on-failure", f"RestartSec={options.restart_seconds}", "OOMPolicy=stop"]


def _user(options: Options) -> list[str]:
    return [f"User={options.user}"] if options.user else ["DynamicUser=yes"]


def _placement(placement: Placement) -> list[str]:
    lines = [f"AllowedCPUs={cpulist.render(placement.cpus)}"]
    if placement.affinity:
        lines.append(f"CPUAffinity={cpulist.render(placement.affinity)}")
    if placement.policy in ("bind", "interleave"):
        lines += [f"NUMAPolicy={placement.policy}", f"NUMAMask={cpulist.render(placement.nodes)}"]
    lines += [f"Environment={quote(f'{key}={value}', variables=False)}" for key, value in placement.environment.items()]
    return lines


def _network(host: str) -> list[str]:
    return ["IPAddressDeny=any", "IPAddressAllow=localhost"] if host in LOOPBACK else []


def _shown(folders: Iterable[str]) -> list[str]:
    """Show folders that the sandbox hides, read-only."""
    hidden = [folder for folder in dict.fromkeys(folders) if f"{folder}/".startswith(tuple(f"{h}/" for h in HIDDEN))]
    return [f"BindReadOnlyPaths={quote(folder, variables=False)}" for folder in hidden]
