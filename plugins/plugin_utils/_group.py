# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is in a group of hosts that serves a model larger than each of them: one head, and the workers that it names.

All of it comes from the inventory. What would make a group that is open to others, or that cannot serve, is refused.
An instance of llama.cpp has its workers in ``rpc_workers``, one of vLLM in ``workers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import (
    parse_endpoint,
    require_private_address,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import ENGINES
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import VllmOptions
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _served_instances

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    Hosts = Mapping[str, Mapping[str, Any]]

#: Options of the instance of a group that decide whether it can be one.
DECIDING = (
    "name",
    "port",
    "speculation",
    "hugepages",
    "rpc_workers",
    "rpc_layers",
)
#: The engines of groups: llama.cpp with its RPC workers, and vLLM.
LLAMA, VLLM = "llama_rpc", "vllm"
#: The variable of a host with what has to be the same on all, such as the checksums of its programs, by its name.
BUILD = "__epyc_group_build"
#: By engine, what to do about members that differ.
SAME = {
    LLAMA: "all hosts of a group need the same build of llama.cpp. Install it on each.",
    VLLM: "all hosts of a group need the same vLLM, the same model and as many nodes. Make them the same.",
}


class Group(NamedTuple):
    """A head with its address and its instance, as ``raw`` in the inventory, and of each worker address and port."""

    engine: str
    head: str
    address: str
    raw: Mapping[str, Any]
    workers: dict[str, tuple[str, int]]

    @property
    def members(self) -> list[str]:
        """The head, and the workers in the order in which the instance names them."""
        return [self.head, *self.workers]


def plan(
    hosts: Iterable[Mapping[str, Any]], played: Collection[str], programs: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return for each member that is ``played`` what it is in its group; BadRequest for what cannot be one.

    ``hosts`` are the variables of all members. With ``programs``, what each has noted in ``__epyc_group_build`` is
    compared, which has to have these names.
    """
    known = {str(host["inventory_hostname"]): host for host in hosts}
    groups = _groups(known)
    grouped = {name for group in groups for name in group.members}
    if alone := [name for name in known if name not in grouped and name in played]:
        raise BadRequest(
            f"{alone[0]} is in epyc_llama_group, and neither has an instance with rpc_workers or workers nor is named "
            "in one: take it out of epyc_llama_group, after epyc_group_state=absent where it was a worker."
        )
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        if not set(group.members) & set(played):
            continue
        if absent := [name for name in group.members if name not in played]:
            raise BadRequest(
                f"This run leaves out {absent[0]}, which is in the group of {group.head}: run it without -l, or name "
                f"{','.join(group.members)}."
            )
        if programs is not None:
            _refuse_differences(group, known, programs)
        for rank, name in enumerate(group.members):
            found[name] = {
                "engine": group.engine,
                "role": "head" if name == group.head else "worker",
                "rank": rank,
                "members": group.members,
                "addresses": [group.address, *(address for address, dummy in group.workers.values())],
                "instance": _part(group, known[name]),
                "unit": _unit(group),
                "address": group.address,
                "clients": [group.address],
            }
            if name in group.workers:
                found[name]["address"], found[name]["port"] = group.workers[name]
    return found


def _part(group: Group, host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the instance as a host has it: a worker answers nobody and needs no key, and has CPUs of its own."""
    if host["inventory_hostname"] == group.head:
        return dict(group.raw)
    part = {key: value for key, value in group.raw.items() if key != "api_key_file"}
    return {**part, "cpus": host["epyc_group_cpus"]} if host.get("epyc_group_cpus") else part


def _unit(group: Group) -> str:
    name = str(group.raw["name"])
    return ENGINES["vllm" if group.engine == VLLM else "llama"].unit_of(name)


def _groups(known: Hosts) -> list[Group]:
    owners = {_address(name, host): name for name, host in known.items()}
    if len(owners) < len(known):
        names = [name for name, host in known.items() if name not in owners.values()]
        raise BadRequest(f"{names[0]} has the epyc_group_address of another host: give each host its own.")
    groups: list[Group] = []
    heads: dict[str, str] = {}
    for name, host in known.items():
        large: list[tuple[str, Mapping[str, Any]]] = [
            *((LLAMA, one) for one in _served_instances.list_llama_instances(host) if one.get("rpc_workers")),
            *((VLLM, one) for one in _served_instances.list_vllm_instances(host) if one.get("workers")),
        ]
        if len(large) > 1:
            raise BadRequest(
                f"{name} has two instances with rpc_workers or workers, and can be in one group: leave one of them."
            )
        for engine, one in large:
            where = f"{name}/{one.get('name', '?')}"
            workers = _workers(where, _asked(engine, where, one), owners)
            groups.append(Group(engine, name, _address(name, host), one, workers))
    if not groups:
        raise BadRequest(
            "No host of epyc_llama_group has an instance with workers: name them in rpc_workers of its "
            "epyc_llama_instances, or in workers of its epyc_vllm_instances."
        )
    for group in groups:
        for worker in group.workers:
            if worker in [one.head for one in groups]:
                raise BadRequest(f"{worker} is a worker of {group.head} and a head itself: a host can be one of them.")
            if other := heads.get(worker):
                raise BadRequest(f"{worker} is a worker of {other} and {group.head}: it can work for one of them.")
            heads[worker] = group.head
    return groups


def _asked(engine: str, where: str, raw: Mapping[str, Any]) -> Sequence[str]:
    """Return the workers that an instance names; BadRequest, which names it, for one that cannot have any."""
    try:
        if engine == VLLM:
            return [str(word) for word in VllmOptions.parse(raw).workers]
        asked = {key: raw[key] for key in DECIDING if key in raw}
        # Which models they are does not matter here, and they may be names of the catalogue.
        models = {key: f"/{key}" for key in ("model", "draft_model", "projector") if raw.get(key)}
        return [str(word) for word in Options.parse({"binary": "/usr/bin/llama-server", **models, **asked}).rpc_workers]
    except BadRequest as error:
        raise BadRequest(f"{where}: {error}") from None


def _workers(where: str, words: Sequence[str], owners: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    workers: dict[str, tuple[str, int]] = {}
    for word in words:
        address, port = parse_endpoint(word, f"{where}: workers")
        worker = owners.get(address)
        if worker is None:
            raise BadRequest(
                f"{where} names the worker {address}, which no host of epyc_llama_group has as its "
                "epyc_group_address: add the host, or correct the address."
            )
        workers[worker] = address, port
    return workers


def _address(name: str, host: Mapping[str, Any]) -> str:
    given = host.get("epyc_group_address")
    if not given:
        raise BadRequest(
            f"{name} has no epyc_group_address: set it to the address that {name} has in the private network of the "
            "group."
        )
    return require_private_address(given, f"{name}: epyc_group_address")


def _refuse_differences(group: Group, known: Hosts, programs: Sequence[str]) -> None:
    """Refuse members that would not speak with each other: no protocol here has a way to find that out for certain."""
    builds: dict[str, Mapping[str, str]] = {}
    for name in group.members:
        build = known[name].get(BUILD)
        if build is None:
            raise BadRequest(f"{name} was not reached, and the group of {group.head} needs it. Nothing was changed.")
        if missing := [program for program in programs if program not in build]:
            raise BadRequest(
                f"{name} has no {missing[0]} where it should be: install llama.cpp there, built with GGML_RPC=ON, or "
                "correct epyc_llama_binary or epyc_group_rpc_binary. Nothing was changed."
            )
        builds[name] = build
    first = builds[group.head]
    for name, build in builds.items():
        for part in (*programs, *sorted({*first, *build})):
            if first.get(part) != build.get(part):
                raise BadRequest(
                    f"{part} is {first.get(part, 'not there')} on {group.head} and {build.get(part, 'not there')} on "
                    f"{name}: {SAME[group.engine]} Nothing was changed."
                )
