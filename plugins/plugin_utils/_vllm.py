# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans instances of vLLM: a process for each NUMA node whose CPUs compute, with its threads and its memory there.

All of it is worked out on the controller, from the plan of the host and from what its vLLM says of itself. One with
``workers`` is divided over several hosts, each of which has as many processes as the others; role group serves it.

Source: vllm/utils/ompmultiprocessing.py and vllm/v1/worker/cpu_worker.py of vLLM 0.32.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import format_endpoint
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import format_bytes_short
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.unit_syntax import (
    format_command_line,
    quote_word,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import LOOPBACK
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.files import ANYWHERE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import require_tables
from ansible_collections.sovereign.epyc.plugins.plugin_utils._vllm_options import options_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FLAG = re.compile(r"--[a-z][a-z0-9-]+")
#: What a server needs, whatever its version.
NEEDED = ("--host", "--port", "--served-model-name", "--max-num-seqs", "--tensor-parallel-size")
#: And what one needs that is divided over hosts.
GROUPED = ("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless", "--distributed-executor-backend")
#: Hands the key over as a variable, because arguments can be seen by all users of the host.
WITH_KEY = 'IFS= read -r VLLM_API_KEY <"$CREDENTIALS_DIRECTORY/api-key" && export VLLM_API_KEY && exec "$@"'


class Member(NamedTuple):
    """A host in the group of an instance: its place among the ``addresses``, its interface there, and its own port.

    ``port`` is that of its lifeline, None for the head.
    """

    instance: str
    rank: int
    addresses: list[str]
    interface: str
    port: int | None


class Host(NamedTuple):
    """What is known of a host: ``cores`` and ``nodes`` by CPU, the CPUs of each role and place, bytes by node."""

    cores: dict[int, int]
    nodes: dict[int, int]
    words: dict[str, set[int]]
    bytes: dict[int, int]


def plan(
    instances: Any,
    epyc: Mapping[str, Any],
    drawn: Mapping[str, Any],
    probe: Mapping[str, Any],
    member: Member | None = None,
) -> list[dict[str, Any]]:
    """Return what the unit of each instance needs. BadRequest for what cannot be served here.

    One with ``workers`` is planned where the host is a ``member`` of its group; elsewhere only its room is kept.

    ``epyc`` are the facts of epyc_plan and ``drawn`` is its ``map``. ``probe`` has ``program``, the words that start
    vLLM, and ``help``, the text in which it lists its arguments; ``wait``, a script for its ``python`` that waits for
    the server up to ``timeout`` seconds; ``group``, the words that start vLLM on a host of a group; and ``models``, by
    folder its ``config``, None where it has none, and the ``bytes`` of its weights.
    """
    host = _host(epyc, drawn)
    flags = set(FLAG.findall(probe["help"]))
    if lacking := [flag for flag in NEEDED if flag not in flags]:
        raise BadRequest(f"vllm_folder has no vLLM that is known here: its help has no {lacking[0]}.")
    plans: list[dict[str, Any]] = []
    taken: dict[int, str] = {}
    ports: dict[int, str] = {}
    demand: dict[int, int] = {}
    for raw in require_tables(instances, "vllm_instances", "instances"):
        options = options_of(raw)
        if options["name"] in ports.values():
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
        hosts = 1 + len(options["workers"])
        _refuse_heads(options, model.get("config"), len(ranks), hosts)
        _refuse_memory(options, ranks, int(model.get("bytes") or 0) // hosts, host, demand)
        if hosts == 1:
            plans.append(_planned(options, ranks, host, flags, probe, model["config"]))
        elif member and member.instance == options["name"]:
            if lacking := [flag for flag in GROUPED if flag not in flags]:
                raise BadRequest(f"{options['name']} has workers, and this vLLM has no {lacking[0]}: take a newer one.")
            plans.append(_planned(options, ranks, host, flags, probe, model["config"], member))
    return plans


def unit_of(name: str) -> str:
    """Return the unit of an instance."""
    return f"vllm-{name}.service"


def _host(epyc: Mapping[str, Any], drawn: Mapping[str, Any]) -> Host:
    cores: dict[int, int] = {}
    nodes: dict[int, int] = {}
    words: dict[str, set[int]] = {
        role: set(parse_cpulist(text)) for role, text in epyc["plan"]["cpus"].items() if isinstance(text, str)
    }
    for domain in drawn["domains"]:
        for core in domain["cores"]:
            for cpu in core:
                cores[cpu] = min(core)
                nodes[cpu] = domain["node"]
                for place in ("node", "socket", "ccd"):
                    words.setdefault(f"{place}{domain[place]}", set()).add(cpu)
    online = set(parse_cpulist(epyc["topology"]["cpus"]["online"]))
    words = {word: cpus & online for word, cpus in words.items()}
    words["all"] = online
    sizes = {node["id"]: node["bytes"] for node in epyc["topology"]["nodes"]}
    return Host(cores, nodes, words, sizes)


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
            numbers = set(parse_cpulist(word))
        except ValueError:
            places = ", ".join(sorted(host.words))
            raise BadRequest(
                f"{where}: cpus is '{word}', which is no CPU and no place here; places are {places}."
            ) from None
        if missing := numbers - host.words["all"]:
            raise BadRequest(f"{where}: cpus has {format_cpulist(missing)}, which this host has not, or not online.")
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


def _refuse_heads(options: Mapping[str, Any], config: Mapping[str, Any] | None, nodes: int, hosts: int) -> None:
    where = f"vllm_instances: {options['name']}"
    if config is None:
        raise BadRequest(
            f"{where}: {options['model']} has no config.json: bring the folder of a model as a hub has it, with "
            "config.json, its tokenizer and *.safetensors. A GGUF file is for llama_instances."
        )
    part = config.get("text_config")
    heads = parse_whole(config.get("num_attention_heads"))
    if heads is None and isinstance(part, dict):
        heads = parse_whole(part.get("num_attention_heads"))
    ranks = nodes * hosts
    if heads and heads % ranks:
        where += f": its CPUs are on {nodes} nodes" + (f" of each of {hosts} hosts" if hosts > 1 else "")
        raise BadRequest(
            f"{where}, so that {ranks} processes would divide {heads} attention heads of {options['alias']}, which "
            "does not come out even. Name cpus on fewer nodes, such as node0."
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
                f"vllm_instances: {options['name']} needs {format_bytes_short(weights // len(ranks))} weights and "
                f"{format_bytes_short(options['kv_cache'])} KV cache on node {node}, which has "
                f"{format_bytes_short(host.bytes.get(node, 0))} for all instances. Take a smaller kv_cache, or cpus "
                "on more nodes."
            )


def _planned(
    options: Mapping[str, Any],
    ranks: Mapping[int, Sequence[int]],
    host: Host,
    flags: Collection[str],
    probe: Mapping[str, Any],
    config: Mapping[str, Any],
    member: Member | None = None,
) -> dict[str, Any]:
    busy = sorted(cpu for cpus in ranks.values() for cpu in cpus)
    near = {cpu for cpu in host.words.get("housekeeping", set()) if host.nodes[cpu] in ranks}
    cpus = sorted({*busy, *(near or host.words.get("housekeeping", set()))})
    serves = member is None or member.port is None
    remarks = []
    environment = {"VLLM_CPU_OMP_THREADS_BIND": "|".join(format_cpulist(one) for one in ranks.values())}
    arguments = ["--served-model-name", options["alias"]]
    if serves:
        arguments += ["--host", options["host"], "--port", options["port"]]
    arguments += ["--dtype", options["dtype"], "--max-num-seqs", options["slots"]]
    arguments += ["--tensor-parallel-size", len(ranks) * (len(member.addresses) if member else 1)]
    if member:
        arguments += _grouped(options, member)
        environment.update({"VLLM_HOST_IP": member.addresses[member.rank], "GLOO_SOCKET_IFNAME": member.interface})
    if options["context"]:
        arguments += ["--max-model-len", options["context"]]
    if not options["compile"]:
        arguments += ["--enforce-eager"]
        # It would still compile the mask of a divided embedding, at the first request, with g++ and openssl.
        environment["TORCHDYNAMO_DISABLE"] = "1"
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
    if serves and options["host"] not in LOOPBACK and options["api_key_file"]:
        remarks.append(
            "vLLM asks for the key only below /v1, and serves /invocations and others without one: keep it in a "
            "private network, behind the gateway."
        )
    environment.update({key: str(value) for key, value in options["extra_environment"].items()})
    url = f"http://{_local(str(options['host']))}:{options['port']}" if serves else ""
    words = [*probe["group" if member else "program"], options["model"], *map(str, arguments)]
    key_file = options["api_key_file"] if serves else ""
    if key_file:
        words = ["/bin/sh", "-c", WITH_KEY, "vllm", *words]
    if member:
        words = [*_lifeline(options, member), *words]
    hosts = len(member.addresses) if member else 1
    expect = {"cpus": format_cpulist(cpus), "busy_cpus": format_cpulist(busy), "nodes": format_cpulist(ranks)}
    carried = {
        "alias": options["alias"],
        "model": options["model"],
        "url": url,
        "hosts": hosts,
        "slots": options["slots"],
        "key_file": key_file,
        "expect": {**expect, "interleaved": False},
    }
    return {
        "name": options["name"],
        "unit": unit_of(options["name"]),
        "alias": options["alias"],
        "model": options["model"],
        "url": url,
        "hosts": hosts,
        "processes": len(ranks),
        "clients": _clients(options, member),
        "start": format_command_line(words[0], words[1:]),
        "wait": format_command_line(probe["python"], ["-c", probe["wait"], url, str(probe["timeout"])])
        if serves
        else "",
        "environment": [
            quote_word(f"{key}={value}", escape_variables=False) for key, value in sorted(environment.items())
        ],
        "api_key_file": key_file,
        "drain_timeout": options["drain_timeout"],
        "context": options["context"] or parse_whole(config.get("max_position_embeddings")) or 2048,
        "threads": len(busy),
        "remarks": remarks,
        # What the unit carries for those who measure it on the host.
        "carried": json.dumps(carried, sort_keys=True) if serves else "",
        **expect,
    }


def _grouped(options: Mapping[str, Any], member: Member) -> list[Any]:
    """Return the arguments by which the processes of a group find each other."""
    found = ["--distributed-executor-backend", "mp", "--nnodes", len(member.addresses), "--node-rank", member.rank]
    found += ["--master-addr", member.addresses[0], "--master-port", options["group_port"]]
    return found if member.port is None else [*found, "--headless"]


def _lifeline(options: Mapping[str, Any], member: Member) -> list[str]:
    """Return the words that run a command as a part of its group."""
    if member.port is None:
        return [HOST_TOOL, "group", "lead", ",".join(options["workers"]), "--"]
    return [HOST_TOOL, "group", "follow", format_endpoint(member.addresses[member.rank], member.port), "--"]


def _clients(options: Mapping[str, Any], member: Member | None) -> list[str]:
    """Return whom the unit lets in; an empty list for everyone."""
    if member:
        serves = [*options["clients"]] if member.port is None else []
        if serves and options["host"] not in ANYWHERE:
            # By its own address the host itself asks whether it serves.
            serves.append(options["host"])
        return list(dict.fromkeys(["localhost", *member.addresses, *serves]))
    return ["localhost"] if options["host"] in LOOPBACK else []


def _local(host: str) -> str:
    """Return where the host itself reaches a server that listens there."""
    host = ANYWHERE.get(host, host)
    return f"[{host}]" if ":" in host else host
