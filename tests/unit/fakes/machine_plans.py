# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is chosen on seventeen machines for six models when nobody chooses: the table of docs/plans-by-machine.md.

The machines are trees of kernel files, and the weights of the models are holes. Everything else is what a host would
get: recommend.yml chooses the variables, and the planner of llama_server plans the instances from them.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, hosts, sized_hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.architectures import MXFP4, Q4_K
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import NEW

#: The rows that are expected, which `make plans ARGS=--write` renews.
DATA = Path(__file__).parents[1] / "data/machine_plans.json"
COLUMNS = ("nps", "instances", "threads", "batch_threads", "context", "memory", "policy", "engine", "speed")
NO_PLAN = "does not fit"
ZEN4 = {"family": 25, "number": 17}
ZEN5 = {"family": 26, "number": 2}
#: Machine -> the arguments of hosts.build, GiB of the nodes with CPUs together, and GiB of a node without CPUs.
MACHINES: dict[str, tuple[dict[str, Any], int, int]] = {
    "VM, 2 vCPUs": (
        {**ZEN4, "model": "AMD EPYC-Genoa Processor", "l3_per_socket": 1, "cores_per_l3": 2, "nodes": 1},
        *(16, 0),
    ),
    "VM, 4 vCPUs, SMT": (
        {**ZEN4, "model": "AMD EPYC-Genoa Processor", "l3_per_socket": 1, "cores_per_l3": 2, "nodes": 1, "smt": True},
        *(32, 0),
    ),
    "9124, NPS4": ({**ZEN4, "l3_per_socket": 4, "cores_per_l3": 4, "l3_mib": 16, "nodes": 4}, 384, 0),
    "9175F": ({**ZEN5, "l3_per_socket": 16, "cores_per_l3": 1, "l3_mib": 32, "nodes": 1}, 768, 0),
    "9354": ({**ZEN4, "l3_per_socket": 8, "cores_per_l3": 4, "l3_mib": 32, "nodes": 1}, 384, 0),
    "9654": ({**ZEN4, "l3_per_socket": 12, "l3_mib": 32, "nodes": 1}, 768, 0),
    "9754, NPS1": ({"nodes": 1}, 768, 0),
    "9754, NPS4": ({"nodes": 4}, 768, 0),
    "9965": ({"family": 26, "number": 17, "l3_per_socket": 12, "cores_per_l3": 16, "l3_mib": 32, "nodes": 1}, 768, 0),
    "2x 7543": (
        {"number": 1, "sockets": 2, "l3_per_socket": 8, "cores_per_l3": 4, "l3_mib": 32, "nodes": 2},
        *(1024, 0),
    ),
    "2x 9654": ({**ZEN4, "sockets": 2, "l3_per_socket": 12, "l3_mib": 32, "nodes": 2}, 1536, 0),
    "2x 9755, NPS4, SMT": ({**ZEN5, "sockets": 2, "l3_per_socket": 16, "l3_mib": 32, "nodes": 8, "smt": True}, 1536, 0),
    "9654 with CXL": ({**ZEN4, "l3_per_socket": 12, "l3_mib": 32, "nodes": 1}, 768, 256),
    # Without SMT, which changes nothing here and would double the files.
    "9006 sample": ({**hosts.ZEN6_SHAPES["Zen 6 sample"], "smt": False}, 1024, 0),
    "9686F": ({**hosts.ZEN6_SHAPES["9686F"], "smt": False}, 1024, 0),
    "9996": ({**hosts.ZEN6_SHAPES["9996"], "smt": False}, 1024, 0),
    "2x 9996": ({**hosts.ZEN6_SHAPES["two 9996"], "smt": False}, 2048, 0),
}
#: Model -> its name among the fakes, the type of its rows, and its draft.
MODELS: dict[str, tuple[str, int, str | None]] = {
    "8B": ("dense 8B", Q4_K, None),
    "32B dense": ("dense 32B", Q4_K, None),
    "70B dense with draft": ("dense 70B", Q4_K, "dense 1B"),
    "30B-A3B": ("moe 30B-A3B", Q4_K, None),
    "120B-A5B": ("moe 120B", MXFP4, None),
    "671B-A37B": ("moe 671B", Q4_K, None),
}

Row = dict[str, str]


def build_machine(folder: Path, name: str) -> sized_hosts.Sized:
    """Return a machine of the table with its memory, laid out in a folder."""
    shape, gib, far_gib = MACHINES[name]
    sku = name.removeprefix("2x ").partition(",")[0].partition(" ")[0]
    cores = shape.get("l3_per_socket", 16) * shape.get("cores_per_l3", 8)
    host = hosts.build(folder, **{"model": f"AMD EPYC {sku} {cores}-Core Processor", **shape})
    if name.startswith("VM"):
        cpuinfo = host.fs.read("/proc/cpuinfo")
        host.put("/proc/cpuinfo", cpuinfo.replace(hosts.FLAGS, "fpu hypervisor avx2 avx512f"))
    nodes = {node: gib / shape["nodes"] for node in range(shape["nodes"])}
    if far_gib:
        far = len(nodes)
        nodes[far] = far_gib
        host.put(f"/sys/devices/system/node/node{far}/cpulist", "")
        host.put("/sys/devices/system/node/has_memory", f"0-{far}")
    return sized_hosts.with_memory(host, nodes)


def write_models(folder: Path) -> dict[str, dict[str, str]]:
    """Write the models and drafts, whose weights are holes; return the request for each."""
    requests = {}
    for name, (fake, rows, draft) in MODELS.items():
        requests[name] = {"model": str(architectures.write(folder / f"{fake}.gguf", fake, rows))}
        if draft:
            requests[name]["draft"] = str(architectures.write(folder / f"{draft}.gguf", draft, rows))
    return requests


def plan_on_machine(fs: sized_hosts.Sized, request: dict[str, str], root: str) -> Row:
    """Return the row of a machine and a model: what is recommended, as the planner plans it."""
    try:
        result = recommending.recommend(fs, [request], recommending.Request("/srv/models", 8080, None, 5), root)
    except TuningError as error:
        return {**dict.fromkeys(COLUMNS, ""), "instances": f"{NO_PLAN}: {_first_sentence(str(error), request)}"}
    variables = result["variables"]
    host = Host(fs, {name: variables[f"epyc_plan_{name}"] for name in ("housekeeping", "draft", "verify", "default")})
    services: list[InstancePlan] = []
    for options in variables["epyc_llama_instances"]:
        parsed = Options.parse({"binary": "/usr/bin/llama-server", **options})
        services.append(shared_host.plan_instance_among_others(LlamaEngine(), host, parsed, NEW, [], services))
    is_proposed = any("ik_llama.cpp" in remark for remark in result["remarks"])
    return describe_services(host, services, variables, " (ik_llama.cpp proposed)" if is_proposed else "")


def describe_services(host: Host, services: list[InstancePlan], variables: dict[str, Any], proposal: str = "") -> Row:
    """Return the row of the instances of a model on a host; they are alike but for their socket."""
    first = services[0]
    wants = first.parameters
    rate = first.predicted_rate
    options = variables["epyc_llama_instances"][0]
    return {
        "nps": find_nps_advice(first),
        "instances": f"{len(services)} on {options.get('cpus', 'all CPUs')}"
        if len(services) == 1
        else f"{len(services)}",
        "threads": str(wants["threads"]),
        "batch_threads": str(wants.get("threads_batch", wants["threads"])),
        "context": f"{first.options.slots} x {first.options.context // first.options.slots}",
        "memory": f"{first.need.total / 1e9:.0f} GB",
        "policy": f"{first.placement.policy} on {len(first.placement.nodes)} of {len(host.topology.nodes)}",
        "engine": f"{options.get('engine') or 'llama.cpp'}{describe_draft(first)}{proposal}",
        "speed": f"{rate.tokens_per_second:.1f} ({rate.source})" if rate else "",
    }


def describe_draft(plan: InstancePlan) -> str:
    """Return how many tokens a draft model proposes; "" for an instance without one."""
    if "draft_model" not in plan.parameters:
        return ""
    return f", drafts of {plan.parameters['draft_max']}"


def find_nps_advice(plan: InstancePlan) -> str:
    """Return the first sentence of a plan's advice on the NUMA nodes of a socket; "" without advice."""
    advice = next((remark for remark in plan.remarks if remark.startswith(("NPS", "L3 as NUMA"))), "")
    return advice.partition(". ")[0].partition(" (")[0]


def _first_sentence(message: str, request: dict[str, str]) -> str:
    text = message.replace(request["model"], "it").partition(". ")[0].rstrip(".")
    return re.sub(r"^it does not fit on this host: it ", "it ", re.sub(r" \([^)]*\)", "", text))


@contextmanager
def folder_with_models() -> Iterator[tuple[Path, dict[str, dict[str, str]]]]:
    """Yield a folder that every user may enter, and the requests for the models in it."""
    with tempfile.TemporaryDirectory() as name, mock.patch.object(recommending, "require_free_port"):
        folder = Path(name)
        folder.chmod(0o755)
        yield folder, write_models(folder)


def compute_rows_of_machine(folder: Path, requests: dict[str, dict[str, str]], machine: str) -> dict[str, Row]:
    """Return the rows of a machine by model."""
    fs = build_machine(folder / f"machine{list(MACHINES).index(machine)}", machine)
    return {model: plan_on_machine(fs, request, str(folder / "root")) for model, request in requests.items()}


def compute_rows() -> dict[str, dict[str, Row]]:
    """Return the rows of the table by machine and model."""
    with folder_with_models() as (folder, requests):
        return {machine: compute_rows_of_machine(folder, requests, machine) for machine in MACHINES}


def load_rows() -> dict[str, dict[str, Row]]:
    """Return the rows that are expected."""
    rows: dict[str, dict[str, Row]] = json.loads(DATA.read_text(encoding="utf-8"))
    return rows


def list_changes(expected: dict[str, dict[str, Row]], rows: dict[str, dict[str, Row]]) -> Iterator[str]:
    """Yield a line for each cell that is not as expected."""
    for machine, models in rows.items():
        for model, row in models.items():
            before = expected.get(machine, {}).get(model, {})
            for column, value in row.items():
                if before.get(column) != value:
                    yield f"{machine}, {model}, {column}: {before.get(column)!r} is now {value!r}"
