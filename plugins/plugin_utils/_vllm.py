# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans instances of vLLM: a process for each NUMA node whose CPUs compute, with its threads and its memory there.

All of it is worked out on the controller, from the plan of the host and from what its vLLM says of itself.

Source: vllm/utils/ompmultiprocessing.py and vllm/v1/worker/cpu_worker.py of vLLM 0.32.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.options import HOST, LOOPBACK
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.unit.files import ANYWHERE
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import about, bytes_of
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.systemd import command, quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
#: Aliases also stand in the configuration of HAProxy, which splits lines at spaces and quotes.
ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}\Z")
FLAG = re.compile(r"--[a-z][a-z0-9-]+")
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
    "extra_arguments": [],
    "extra_environment": {},
}
#: What a service does not see.
HOMES = ("/root/", "/home/", "/run/user/")
#: What a server needs, whatever its version.
NEEDED = ("--host", "--port", "--served-model-name", "--max-num-seqs", "--tensor-parallel-size")
#: Hands the key over as a variable, because arguments can be seen by all users of the host.
WITH_KEY = 'IFS= read -r VLLM_API_KEY <"$CREDENTIALS_DIRECTORY/api-key" && export VLLM_API_KEY && exec "$@"'
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
    "VLLM_CPU_OMP_THREADS_BIND": "cpus",
    "VLLM_CPU_KVCACHE_SPACE": "kv_cache",
    "VLLM_API_KEY": "api_key_file",
}
#: It dies at the first request with several stages, though its health is fine until then.
REFUSED = {
    "--pipeline-parallel-size": "vLLM on CPUs ends at the first request with stages of a pipeline",
    "-pp": "vLLM on CPUs ends at the first request with stages of a pipeline",
}


class Host(NamedTuple):
    """What is known of a host: ``cores`` and ``nodes`` by CPU, the CPUs of each role and place, bytes by node."""

    cores: dict[int, int]
    nodes: dict[int, int]
    words: dict[str, set[int]]
    bytes: dict[int, int]


def plan(
    instances: Iterable[Mapping[str, Any]], epyc: Mapping[str, Any], drawn: Mapping[str, Any], probe: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what the unit of each instance needs. BadRequest for what cannot be served here.

    ``epyc`` are the facts of epyc_plan and ``drawn`` is its ``map``. ``probe`` has ``program``, the words that start
    vLLM, and ``help``, the text in which it lists its arguments; ``wait``, a script for its ``python`` that waits for
    the server up to ``timeout`` seconds; and ``models``, by folder its ``config``, None where it has none, and the
    ``bytes`` of its weights.
    """
    host = _host(epyc, drawn)
    flags = set(FLAG.findall(probe["help"]))
    if lacking := [flag for flag in NEEDED if flag not in flags]:
        raise BadRequest(f"vllm_folder has no vLLM that is known here: its help has no {lacking[0]}.")
    plans: list[dict[str, Any]] = []
    taken: dict[int, str] = {}
    ports: dict[int, str] = {}
    demand: dict[int, int] = {}
    for raw in instances:
        options = _options(raw)
        if any(one["name"] == options["name"] for one in plans):
            raise BadRequest(f"vllm_instances names {options['name']} twice: give each a name of its own.")
        if other := ports.get(options["port"]):
            raise BadRequest(f"{other} and {options['name']} have the same port {options['port']}: give each its own.")
        ports[options["port"]] = options["name"]
        ranks = _ranks(options, host)
        busy = [cpu for cpus in ranks.values() for cpu in cpus]
        for cpu in busy:
            if taken.setdefault(cpu, options["name"]) != options["name"]:
                raise BadRequest(
                    f"{taken[cpu]} and {options['name']} both compute on CPU {cpu}: name cpus for each, such as node0 "
                    "and node1."
                )
        model = probe["models"].get(options["model"], {})
        _refuse_heads(options, model.get("config"), len(ranks))
        _refuse_memory(options, ranks, int(model.get("bytes") or 0), host, demand)
        plans.append(_planned(options, ranks, host, flags, probe, model["config"]))
    return plans


def _host(epyc: Mapping[str, Any], drawn: Mapping[str, Any]) -> Host:
    cores: dict[int, int] = {}
    nodes: dict[int, int] = {}
    words: dict[str, set[int]] = {
        role: set(cpulist.parse(text)) for role, text in epyc["plan"]["cpus"].items() if isinstance(text, str)
    }
    for domain in drawn["domains"]:
        for core in domain["cores"]:
            for cpu in core:
                cores[cpu] = min(core)
                nodes[cpu] = domain["node"]
                for place in ("node", "socket", "ccd"):
                    words.setdefault(f"{place}{domain[place]}", set()).add(cpu)
    online = set(cpulist.parse(epyc["topology"]["cpus"]["online"]))
    words = {word: cpus & online for word, cpus in words.items()}
    words["all"] = online
    sizes = {node["id"]: node["bytes"] for node in epyc["topology"]["nodes"]}
    return Host(cores, nodes, words, sizes)


def _options(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an instance, each in its type."""
    where = f"vllm_instances: {raw.get('name', '?')}"
    if unknown := sorted(set(raw) - set(DEFAULTS)):
        raise BadRequest(f"{where} has no option {unknown[0]}; it has {', '.join(sorted(DEFAULTS))}.")
    options = {**DEFAULTS, **raw}
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
    for key in ("port", "slots", "drain_timeout", "context"):
        if options[key] is not None or key == "port":
            options[key] = _counted(where, key, options[key])
    options["kv_cache"] = bytes_of(str(options["kv_cache"]), f"{where}: kv_cache")
    options["compile"] = str(options["compile"]).lower() in ("true", "yes", "1")
    for word in [*options["extra_arguments"], *options["extra_environment"]]:
        key = str(word).partition("=")[0]
        if key in REFUSED:
            raise BadRequest(f"{where}: {key} is refused, because {REFUSED[key]}. Leave it out.")
        if key in SAID:
            raise BadRequest(f"{where}: {key} is said by the option {SAID[key]}: use that.")
    return options


def _counted(where: str, key: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise BadRequest(f"{where}: {key} is '{value}': say a whole number from 1 up.")
    return int(text)


def _ranks(options: Mapping[str, Any], host: Host) -> dict[int, list[int]]:
    """Return by NUMA node the CPUs of the process that computes there: the first of each core."""
    where = f"vllm_instances: {options['name']}"
    kept = host.words.get("housekeeping", set())
    chosen: set[int] = set()
    for word in str(options["cpus"] or "all").split(","):
        word = word.strip()
        if word in host.words:
            chosen |= host.words[word] if word == "housekeeping" else host.words[word] - kept
            continue
        try:
            numbers = set(cpulist.parse(word))
        except ValueError:
            places = ", ".join(sorted(host.words))
            raise BadRequest(
                f"{where}: cpus is '{word}', which is no CPU and no place here; places are {places}."
            ) from None
        if missing := numbers - host.words["all"]:
            raise BadRequest(f"{where}: cpus has {cpulist.render(missing)}, which this host has not, or not online.")
        chosen |= numbers
    if not chosen:
        raise BadRequest(f"{where}: cpus is '{options['cpus']}', and no CPU is left for it beside the housekeeping.")
    ranks: dict[int, list[int]] = {}
    seen: set[int] = set()
    for cpu in sorted(chosen):
        if host.cores[cpu] not in seen:
            seen.add(host.cores[cpu])
            ranks.setdefault(host.nodes[cpu], []).append(cpu)
    return dict(sorted(ranks.items()))


def _refuse_heads(options: Mapping[str, Any], config: Mapping[str, Any] | None, ranks: int) -> None:
    where = f"vllm_instances: {options['name']}"
    if config is None:
        raise BadRequest(
            f"{where}: {options['model']} has no config.json: bring the folder of a model as a hub has it, with "
            "config.json, its tokenizer and *.safetensors. A GGUF file is for llama_instances."
        )
    heads = config.get("num_attention_heads") or (config.get("text_config") or {}).get("num_attention_heads")
    if heads and int(heads) % ranks:
        raise BadRequest(
            f"{where}: its CPUs are on {ranks} nodes, so that {ranks} processes would divide {heads} attention heads "
            f"of {options['alias']}, which does not come out even. Name cpus on fewer nodes, such as node0."
        )


def _refuse_memory(
    options: Mapping[str, Any], ranks: Collection[int], weights: int, host: Host, demand: dict[int, int]
) -> None:
    """Refuse what no node can hold: each has a share of the weights and a KV cache of its own."""
    need = weights // len(ranks) + options["kv_cache"]
    for node in ranks:
        demand[node] = demand.get(node, 0) + need
        if demand[node] > host.bytes.get(node, 0):
            raise BadRequest(
                f"vllm_instances: {options['name']} needs {about(weights // len(ranks))} weights and "
                f"{about(options['kv_cache'])} KV cache on node {node}, which has {about(host.bytes.get(node, 0))} for "
                "all instances. Take a smaller kv_cache, or cpus on more nodes."
            )


def _planned(
    options: Mapping[str, Any],
    ranks: Mapping[int, Sequence[int]],
    host: Host,
    flags: Collection[str],
    probe: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    busy = sorted(cpu for cpus in ranks.values() for cpu in cpus)
    near = {cpu for cpu in host.words.get("housekeeping", set()) if host.nodes[cpu] in ranks}
    cpus = sorted({*busy, *(near or host.words.get("housekeeping", set()))})
    remarks = []
    environment = {"VLLM_CPU_OMP_THREADS_BIND": "|".join(cpulist.render(one) for one in ranks.values())}
    arguments = ["--served-model-name", options["alias"], "--host", options["host"], "--port", options["port"]]
    arguments += ["--dtype", options["dtype"], "--max-num-seqs", options["slots"]]
    arguments += ["--tensor-parallel-size", len(ranks)]
    if options["context"]:
        arguments += ["--max-model-len", options["context"]]
    if not options["compile"]:
        arguments += ["--enforce-eager"]
    if "--kv-cache-memory-bytes" in flags:
        arguments += ["--kv-cache-memory-bytes", options["kv_cache"]]
    else:
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, options["kv_cache"] >> 30))
    if "--shutdown-timeout" in flags:
        arguments += ["--shutdown-timeout", options["drain_timeout"]]
    else:
        remarks.append("This vLLM has no --shutdown-timeout: a stop breaks off requests in progress.")
    for word in map(str, options["extra_arguments"]):
        if word.startswith("--") and word.partition("=")[0].partition(".")[0] not in flags:
            raise BadRequest(f"vllm_instances: {options['name']}: this vLLM has no {word}; its help lists what it has.")
        arguments.append(word)
    if len(cpus) == len(busy):
        remarks.append("There is no housekeeping CPU, so its HTTP server runs among the threads that compute.")
    if options["host"] not in LOOPBACK and options["api_key_file"]:
        remarks.append(
            "vLLM asks for the key only below /v1, and serves /invocations and others without one: keep it in a "
            "private network, behind the gateway."
        )
    environment.update({key: str(value) for key, value in options["extra_environment"].items()})
    url = f"http://{_local(str(options['host']))}:{options['port']}"
    words = [*probe["program"], options["model"], *map(str, arguments)]
    key_file = options["api_key_file"]
    return {
        "name": options["name"],
        "unit": f"vllm-{options['name']}.service",
        "alias": options["alias"],
        "model": options["model"],
        "url": url,
        "loopback": options["host"] in LOOPBACK,
        "start": command("/bin/sh", ["-c", WITH_KEY, "vllm", *words]) if key_file else command(words[0], words[1:]),
        "wait": command(probe["python"], ["-c", probe["wait"], url, str(probe["timeout"])]),
        "environment": [quote(f"{key}={value}", variables=False) for key, value in sorted(environment.items())],
        "api_key_file": key_file,
        "drain_timeout": options["drain_timeout"],
        "context": options["context"] or int(config.get("max_position_embeddings") or 2048),
        "cpus": cpulist.render(cpus),
        "busy_cpus": cpulist.render(busy),
        "threads": len(busy),
        "nodes": cpulist.render(ranks),
        "remarks": remarks,
    }


def _local(host: str) -> str:
    """Return where the host itself reaches a server that listens there."""
    host = ANYWHERE.get(host, host)
    return f"[{host}]" if ":" in host else host
