# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance of vLLM, each with its default, in its type, and refused where it can be none.

Where the instance computes and what that takes is planned in ``_vllm``.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import parse_endpoint, parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import parse_bytes
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import HOST, LOOPBACK
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import require_list, require_table, require_text

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
#: Aliases also stand in the configuration of HAProxy, which splits lines at spaces and quotes.
ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}\Z")
#: The options of an instance, and what each is where it is not said.
DEFAULTS: dict[str, Any] = {
    "name": None,
    "model": None,
    "port": None,
    "alias": "",
    "host": "127.0.0.1",
    "cpus": "",
    "slots": 32,
    "context": None,
    "kv_cache": "4GiB",
    "dtype": "auto",
    "compile": False,
    "api_key_file": "",
    "drain_timeout": 60,
    "workers": [],
    "clients": [],
    "group_port": 29501,
    "extra_arguments": [],
    "extra_environment": {},
}
#: An address or a network, as systemd takes it.
CLIENT = re.compile(r"[0-9a-fA-F.:]+(?:/[0-9]{1,3})?\Z")
#: What a service does not see.
HOMES = ("/root/", "/home/", "/run/user/")
#: Arguments and variables that an option says, or that would let a secret be seen in the list of processes.
SAID = {
    "--model": "model",
    "--host": "host",
    "--port": "port",
    "--served-model-name": "alias",
    "--max-num-seqs": "slots",
    "--max-model-len": "context",
    "--kv-cache-memory-bytes": "kv_cache",
    "--dtype": "dtype",
    "--enforce-eager": "compile",
    "--api-key": "api_key_file",
    "--shutdown-timeout": "drain_timeout",
    "--tensor-parallel-size": "cpus",
    "-tp": "cpus",
    "--nnodes": "workers",
    "--node-rank": "workers",
    "--master-addr": "workers",
    "--master-port": "group_port",
    "--headless": "workers",
    "--distributed-executor-backend": "workers",
    "VLLM_HOST_IP": "workers",
    "GLOO_SOCKET_IFNAME": "workers",
    "VLLM_CPU_OMP_THREADS_BIND": "cpus",
    "VLLM_CPU_KVCACHE_SPACE": "kv_cache",
    "VLLM_API_KEY": "api_key_file",
}
#: It dies at the first request with several stages, though its health is fine until then.
REFUSED = {
    "--pipeline-parallel-size": "vLLM on CPUs ends at the first request with stages of a pipeline",
    "-pp": "vLLM on CPUs ends at the first request with stages of a pipeline",
}


def options_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an instance, each in its type. BadRequest for what can be none."""
    where = f"vllm_instances: {raw.get('name', '?')}"
    for key, value in require_table(raw, where).items():
        _require_kind(f"{where}: {key}", DEFAULTS.get(key), value)
    if unknown := sorted(set(raw) - set(DEFAULTS)):
        raise BadRequest(f"{where} has no option {unknown[0]}; it has {', '.join(sorted(DEFAULTS))}.")
    options = {**DEFAULTS, **{key: value for key, value in raw.items() if value is not None}}
    if not NAME.match(str(options["name"] or "")):
        raise BadRequest(f"{where}: '{options['name']}' is no name of an instance: take a-z, 0-9, _ and - only.")
    if not str(options["model"] or "").startswith("/"):
        raise BadRequest(f"{where}: model is '{options['model']}': name the folder of a model on the host, from / on.")
    options["model"] = str(options["model"]).rstrip("/")
    if options["model"].startswith(HOMES):
        raise BadRequest(f"{where}: model is {options['model']}, and services do not see homes: keep it elsewhere.")
    options["alias"] = str(options["alias"] or PurePosixPath(options["model"]).name)
    if not ALIAS.match(options["alias"]):
        raise BadRequest(f"{where}: alias is '{options['alias']}': take letters, digits and ._:/@+- only.")
    if not HOST.match(str(options["host"])):
        raise BadRequest(f"{where}: host is '{options['host']}', which is no address: name one of the host.")
    for key in ("slots", "drain_timeout", "context"):
        if options[key] is not None:
            options[key] = _counted(where, key, options[key])
    for key in ("port", "group_port"):
        number = parse_port(options[key])
        if number is None:
            raise BadRequest(f"{where}: {key} is '{options[key]}': say a number from 1 to 65535.")
        options[key] = number
    options["kv_cache"] = parse_bytes(str(options["kv_cache"]), f"{where}: kv_cache")
    options["compile"] = str(options["compile"]).lower() in ("true", "yes", "1")
    _refuse_group(where, options)
    for word in [*options["extra_arguments"], *options["extra_environment"]]:
        key = str(word).partition("=")[0]
        if key in REFUSED:
            raise BadRequest(f"{where}: {key} is refused, because {REFUSED[key]}. Leave it out.")
        if key in SAID:
            raise BadRequest(f"{where}: {key} is said by the option {SAID[key]}: use that.")
    return options


def _refuse_group(where: str, options: Mapping[str, Any]) -> None:
    """Refuse a group that is open to others: what its processes send each other runs as code."""
    for word in options["workers"]:
        if parse_endpoint(word, f"{where}: workers")[1] == options["group_port"]:
            raise BadRequest(f"{where}: workers and group_port are both {options['group_port']}: take two ports.")
    if options["workers"] and not CLIENT.match(str(options["host"])):
        raise BadRequest(f"{where}: host is '{options['host']}': with workers, name an address, such as 10.20.0.1.")
    for word in options["clients"]:
        if not CLIENT.match(str(word)):
            raise BadRequest(
                f"{where}: clients has '{word}': name addresses and networks, such as 10.20.0.9 or fd00::/64."
            )
    if options["workers"] and options["host"] not in LOOPBACK and not options["clients"]:
        raise BadRequest(
            f"{where}: it has workers and listens on {options['host']}, and its unit lets in nobody but them: name in "
            "clients who asks it, such as the addresses of the gateways."
        )
    if options["clients"] and not options["workers"]:
        raise BadRequest(f"{where}: clients is for an instance with workers: leave it out, or name them.")


def _counted(where: str, key: str, value: Any) -> int:
    number = parse_whole(value)
    if not number:
        raise BadRequest(f"{where}: {key} is '{value}': say a whole number from 1 up.")
    return number


def _require_kind(where: str, default: Any, value: Any) -> None:
    """Refuse another kind of value than that of the default; a number is a text too, and nothing is the default."""
    if isinstance(default, list):
        for word in require_list(value, where, "words"):
            require_text(word, where)
    elif isinstance(default, dict):
        for name, text in require_table({} if value is None else value, where).items():
            require_text(text, f"{where}: {name}")
    elif value is not None and not isinstance(default, bool):
        require_text(value, where)
