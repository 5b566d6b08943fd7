# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The members of a group: hosts that serve together one model, which is too large for a single host.

The inventory names one head, and the workers of its instance: in ``rpc_workers`` for llama.cpp, in ``workers`` for
vLLM. A group that other hosts could reach, or that could not serve, is refused.
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

#: Options that decide whether an instance can be that of a group.
DECIDING_OPTIONS = ("name", "port", "speculation", "hugepages", "rpc_workers", "rpc_layers")
#: The engines of groups: llama.cpp with its RPC workers, and vLLM.
LLAMA, VLLM = "llama_rpc", "vllm"
#: The variable of a host with facts that must be the same on all members, such as checksums of programs, by name.
BUILD = "__epyc_group_build"
#: Engine -> the advice for members with different facts.
ADVICE_ON_DIFFERENCE = {
    LLAMA: "all hosts of a group need the same build of llama.cpp. Install the same build on each.",
    VLLM: "all hosts of a group need the same vLLM, the same model and as many nodes. Remove the difference.",
}


class Group(NamedTuple):
    """A group: its engine, its head with its address, its instance as in the inventory, and its workers.

    ``workers`` maps the name of a worker to its address and port.
    """

    engine: str
    head: str
    address: str
    instance: Mapping[str, Any]
    workers: dict[str, tuple[str, int]]

    @property
    def members(self) -> list[str]:
        """The head, and the workers in the order in which the instance names them."""
        return [self.head, *self.workers]


def plan_members_of_groups(
    hosts: Iterable[Mapping[str, Any]], run_hosts: Collection[str], programs: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the plan of each member of a group that this run reaches, as the filter group_plan documents it.

    ``hosts`` are the variables of all members, and ``run_hosts`` are the hosts of the run. With ``programs``, all
    members must have these programs, and the same ``__epyc_group_build``. Raises BadRequest for an invalid group.
    """
    variables = {str(host["inventory_hostname"]): host for host in hosts}
    groups = _list_valid_groups(variables)
    grouped = {name for group in groups for name in group.members}
    if without_group := [name for name in variables if name not in grouped and name in run_hosts]:
        raise BadRequest(
            f"{without_group[0]} is in epyc_llama_group, and neither has an instance with rpc_workers or workers nor "
            "is named in one: take it out of epyc_llama_group, after epyc_group_state=absent where it was a worker."
        )
    plans: dict[str, dict[str, Any]] = {}
    for group in groups:
        if not set(group.members) & set(run_hosts):
            continue
        if absent := [name for name in group.members if name not in run_hosts]:
            raise BadRequest(
                f"This run leaves out {absent[0]}, which is in the group of {group.head}: run it without -l, or name "
                f"{','.join(group.members)}."
            )
        if programs is not None:
            _require_same_build(group, variables, programs)
        addresses = [group.address, *(address for address, dummy in group.workers.values())]
        unit = ENGINES["vllm" if group.engine == VLLM else "llama"].unit_name(str(group.instance["name"]))
        for rank, name in enumerate(group.members):
            plans[name] = {
                "engine": group.engine,
                "role": "head" if name == group.head else "worker",
                "rank": rank,
                "members": group.members,
                "addresses": addresses,
                "instance": _adapt_instance_to_member(group, variables[name]),
                "unit": unit,
                "address": group.address,
                "clients": [group.address],
            }
            if name in group.workers:
                plans[name]["address"], plans[name]["port"] = group.workers[name]
    return plans


def _adapt_instance_to_member(group: Group, host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a group's instance for one member: a worker has no key file, and may have its own CPUs."""
    if host["inventory_hostname"] == group.head:
        return dict(group.instance)
    options = {key: value for key, value in group.instance.items() if key != "api_key_file"}
    return {**options, "cpus": host["epyc_group_cpus"]} if host.get("epyc_group_cpus") else options


def _list_valid_groups(variables: Hosts) -> list[Group]:
    owners = {_require_group_address(name, host): name for name, host in variables.items()}
    if len(owners) < len(variables):
        names = [name for name in variables if name not in owners.values()]
        raise BadRequest(f"{names[0]} has the epyc_group_address of another host: give each host its own.")
    groups = []
    for name, host in variables.items():
        llama, vllm = _served_instances.list_llama_instances(host), _served_instances.list_vllm_instances(host)
        candidates: list[tuple[str, Mapping[str, Any]]] = [
            *((LLAMA, instance) for instance in llama if instance.get("rpc_workers")),
            *((VLLM, instance) for instance in vllm if instance.get("workers")),
        ]
        if len(candidates) > 1:
            raise BadRequest(
                f"{name} has two instances with rpc_workers or workers, and can be in one group: leave one of them."
            )
        for engine, instance in candidates:
            place = f"{name}/{instance.get('name', '?')}"
            workers = _resolve_worker_endpoints(place, _worker_endpoints_of_instance(engine, place, instance), owners)
            groups.append(Group(engine, name, _require_group_address(name, host), instance, workers))
    if not groups:
        raise BadRequest(
            "No host of epyc_llama_group has an instance with workers: name them in rpc_workers of its "
            "epyc_llama_instances, or in workers of its epyc_vllm_instances."
        )
    _refuse_hosts_in_two_groups(groups)
    return groups


def _refuse_hosts_in_two_groups(groups: Sequence[Group]) -> None:
    heads: dict[str, str] = {}
    for group in groups:
        for worker in group.workers:
            if worker in [other.head for other in groups]:
                raise BadRequest(f"{worker} is a worker of {group.head} and a head itself: a host can be one of them.")
            if other := heads.get(worker):
                raise BadRequest(f"{worker} is a worker of {other} and {group.head}: it can work for one of them.")
            heads[worker] = group.head


def _worker_endpoints_of_instance(engine: str, place: str, instance: Mapping[str, Any]) -> Sequence[str]:
    """Return the workers that an instance names; raises BadRequest for an instance that cannot have workers."""
    try:
        if engine == VLLM:
            return [str(word) for word in VllmOptions.parse(instance).workers]
        options = {key: instance[key] for key in DECIDING_OPTIONS if key in instance}
        # Any path serves as model here, because the instance may have names of the catalogue, which are no paths.
        models = {key: f"/{key}" for key in ("model", "draft_model", "projector") if instance.get(key)}
        parsed = Options.parse({"binary": "/usr/bin/llama-server", **models, **options})
        return [str(word) for word in parsed.rpc_workers]
    except BadRequest as error:
        raise BadRequest(f"{place}: {error}") from None


def _resolve_worker_endpoints(
    place: str, endpoints: Sequence[str], host_by_address: Mapping[str, str]
) -> dict[str, tuple[str, int]]:
    """Return the name of each worker with its address and port."""
    workers: dict[str, tuple[str, int]] = {}
    for endpoint in endpoints:
        address, port = parse_endpoint(endpoint, f"{place}: workers")
        worker = host_by_address.get(address)
        if worker is None:
            raise BadRequest(
                f"{place} names the worker {address}, which no host of epyc_llama_group has as its "
                "epyc_group_address: add the host, or correct the address."
            )
        workers[worker] = address, port
    return workers


def _require_group_address(name: str, host: Mapping[str, Any]) -> str:
    address = host.get("epyc_group_address")
    if not address:
        raise BadRequest(
            f"{name} has no epyc_group_address: set it to the address that {name} has in the private network of the "
            "group."
        )
    return require_private_address(address, f"{name}: epyc_group_address")


def _require_same_build(group: Group, variables: Hosts, programs: Sequence[str]) -> None:
    """Raise BadRequest for members with different builds. No protocol of an engine finds such a difference reliably."""
    builds: dict[str, Mapping[str, str]] = {}
    for name in group.members:
        build = variables[name].get(BUILD)
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
                    f"{name}: {ADVICE_ON_DIFFERENCE[group.engine]} Nothing was changed."
                )
