# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recommends the variables of an inventory for this host and these models, from topology, memory and model headers.

Nothing is written, and only one program is run: systemctl, to find the running instances. The memory of these instances
counts as free, because site.yml replaces them.
"""

from __future__ import annotations

import os
import re

from ..._errors import BadRequest
from ..._io.web.download import require_disk_space
from ..._models import model_source as sources
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.sizes import UNITS
from ..catalogue import LLAMA
from ..options.options import Options
from ..options.unit_names import instance_unit_name
from ..unit.installed import read_instance_unit_texts
from ..unit.refusals import require_free_port
from ..unit.shared_host import find_running_instances
from . import host_variables, model_variables
from .engine_choice import list_engine_remarks
from .host_sharing import assign_host_parts
from .largest_fit import Candidate, choose_best_levels_that_fit, require_candidate_fits_on_host, task_option_of_model
from .memory_for_instances import read_memory_for_instances
from .model_request import parse_model_requests
from .model_use import CHAT
from .variables_file import render_variables_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._io.kernelfs import KernelFS
    from ..._models.model import Model
    from ..._models.model_source import FileToFetch
    from ..plan.instance_plan import InstancePlan
    from ..plan.memory.free_memory import FreeMemory
    from .model_request import ModelRequest

LAST_PORT = 65535
PORTS_TRIED = 100
LONGEST_NAME = 36
HEAD_COMMENTS = (
    "The variables that playbooks/recommend.yml of sovereign.epyc recommends for one host and its models, each with "
    "its reason and its cost. Nothing of it was measured on this host.",
)


class Request:
    """The options of a recommendation except for the models.

    ``folder`` is for model files from a URL, ``port`` is the first port of instances, ``binary`` is the llama-server,
    ``timeout`` is for how many seconds a file server may be silent, and ``use`` is the use of models that state none.
    """

    __slots__ = ("binary", "folder", "port", "timeout", "use")

    def __init__(self, folder: str, port: int, binary: str | None, timeout: int, use: str = CHAT) -> None:
        if not folder.startswith("/"):
            raise BadRequest(f"folder is '{folder}'; say the whole path, beginning with /.")
        self.folder = folder
        self.port = port
        self.binary = binary
        self.timeout = timeout
        self.use = use


def recommend(fs: KernelFS, models: object, request: Request, root: str = "/") -> dict[str, Any]:
    """Return the recommended variables as file (``text``) and as data, the plans of instances, and remarks.

    BadRequest for an invalid request, and, with numbers, for a model that is too large for this host.
    """
    requested = [RequestedModel(model_request, request) for model_request in parse_model_requests(models, request.use)]
    _require_distinct_paths([file for item in requested for file in [*item.files, *item.draft_files]])
    host = host_variables.make_recommended_host(fs)
    installed = read_instance_unit_texts(root)
    running_names = find_running_instances(list(installed))
    ending_units = [unit for name in running_names for unit in LLAMA.unit_names(name)]
    free = read_memory_for_instances(host, requested[0].make_candidate({}).parse_options(), running_names)
    huge = free.thp != "never"
    for item in requested:
        require_candidate_fits_on_host(host, free, item.make_candidate({}), item.model_request)
    candidates, services = _plan_instances_of_requests(host, free, requested, request, ending_units)
    notes = [_remove_draft_left_out_by_plan(candidate, service) for candidate, service in zip(candidates, services)]
    drafts = {candidate.draft.path for candidate in candidates if candidate.draft}
    files = list({file.path: file for item in requested for file in item.list_files_to_fetch(drafts)}.values())
    _require_disk_space_for_files(files)
    program = request.binary if request.binary and os.path.exists(request.binary) else None
    lines = [
        *host_variables.recommend_host_variables(host, huge),
        *model_variables.list_variables_of_server_binary(program),
        *model_variables.list_variables_of_files_to_fetch(files),
        model_variables.build_instances_variable(candidates, services, notes),
    ]
    head = [*HEAD_COMMENTS, host_variables.describe_host(host, sum(free.available.values()))]
    head += [model_variables.describe_model(item.model) for item in requested]
    return {
        "text": render_variables_file(head, lines),
        "variables": {line.key: line.value_or_rows() for line in lines},
        "services": {service.name: service.to_dict() for service in services},
        "remarks": [
            *_list_remarks(request, program, set(installed) - {service.name for service in services}),
            *list_engine_remarks([item.model for item in requested], program),
        ],
    }


class RequestedModel:
    """A requested model and its draft, as their headers describe them, with the files to fetch."""

    def __init__(self, model_request: ModelRequest, request: Request) -> None:
        self.model_request = model_request
        source = sources.read_model_and_files_to_fetch(
            model_request.model, model_request.checksum, request.folder, request.timeout
        )
        self.model: Model = source.model
        self.files = list(source.files)
        self.draft: Model | None = None
        self.draft_files: list[FileToFetch] = []
        if self.model.architecture == "clip":
            raise BadRequest(
                f"{model_request.model} is a projector and serves nothing by itself. Name the model it is for."
            )
        if model_request.draft and task_option_of_model(self.model):
            raise BadRequest(f"{model_request.model} makes no text, so that nothing can draft for it. Leave draft out.")
        if model_request.draft:
            source = sources.read_model_and_files_to_fetch(
                model_request.draft, model_request.draft_checksum, request.folder, request.timeout
            )
            self.draft, self.draft_files = source.model, list(source.files)

    def make_candidate(self, instance_options: Mapping[str, Any]) -> Candidate:
        """Return a candidate for an instance of the model with these options."""
        named = {"name": "model", "port": LAST_PORT, **instance_options}
        return Candidate(self.model_request, self.model, self.draft, named)

    def list_files_to_fetch(self, used_draft_paths: set[str]) -> list[FileToFetch]:
        """Return the files to fetch: the files of the model, and of its draft if the draft is used."""
        return [*self.files, *(self.draft_files if self.draft and self.draft.path in used_draft_paths else [])]


def _plan_instances_of_requests(
    host: Host, free: FreeMemory, requested: Sequence[RequestedModel], request: Request, ending_units: Sequence[str]
) -> tuple[list[Candidate], list[InstancePlan]]:
    """Return the instances and their plans: an instance for each model, or a single model's instance on each socket."""
    huge = {"hugepages": "thp"} if free.thp != "never" else {}
    names = _choose_instance_names([item.model.path for item in requested])
    ports = _find_free_ports(host.fs, request.port, ending_units)
    sockets = host.topology.sockets
    if len(requested) > 1:
        candidates = [
            item.make_candidate({"name": name, "port": next(ports), **huge}) for item, name in zip(requested, names)
        ]
        return candidates, assign_host_parts(host, free, candidates)
    (item,) = requested
    # A file that two instances map is in memory once, so a copy on each socket needs huge pages.
    if len(sockets) > 1 and huge:
        each = [{"name": f"{names[0]}-{n}", "port": next(ports), "cpus": f"socket{n}", **huge} for n in sorted(sockets)]
        candidates = [item.make_candidate(fixed) for fixed in each]
        try:
            services = choose_best_levels_that_fit(host, free, candidates)
        except BadRequest:
            services = []
        if services and all(candidate.has_largest_context for candidate in candidates):
            return candidates, services
    alone = item.make_candidate(
        {"name": names[0], "port": next(_find_free_ports(host.fs, request.port, ending_units)), **huge}
    )
    return [alone], choose_best_levels_that_fit(host, free, [alone])


def _choose_instance_names(paths: Sequence[str]) -> list[str]:
    """Return a unique instance name for each model file, made from the name of the file."""
    names: list[str] = []
    for path in paths:
        stem = os.path.basename(path)
        if len(list_gguf_parts(path)) > 1:
            stem = stem[: -len("-00001-of-00001.gguf")]
        stem = re.sub(r"[^a-z0-9_-]+", "-", re.sub(r"\.gguf$", "", stem.lower())).strip("-_")
        name = stem[:LONGEST_NAME].rstrip("-_") or "model"
        name = f"{name}-model" if name.endswith("-rpc") else name
        number = 2
        while name in names:
            name, number = f"{name[: LONGEST_NAME - 3]}-{number}", number + 1
        names.append(name)
    return names


def _find_free_ports(fs: KernelFS, first_port: int, ending_units: Sequence[str]) -> Iterator[int]:
    """Yield free ports; the ports of running instances count as free, because site.yml replaces the instances."""
    for port in range(first_port, min(first_port + PORTS_TRIED, LAST_PORT + 1)):
        options = Options.parse({"name": "port", "binary": "/port", "model": "/port", "port": port})
        try:
            require_free_port(fs, options, ending_units)
        except BadRequest:
            continue
        yield port
    raise BadRequest(
        f"port: other programs have all ports from {first_port} on that were tried. Give another first port."
    )


def _remove_draft_left_out_by_plan(candidate: Candidate, service: InstancePlan) -> str:
    """Remove from a candidate a draft that its plan left out, and return the reason; "" where no draft was left out."""
    if not candidate.draft or "draft_model" in service.parameters:
        return ""
    candidate.draft = None
    return service.draft_left_out_reason


def _require_distinct_paths(files: Sequence[FileToFetch]) -> None:
    urls: dict[str, str] = {}
    for file in files:
        if urls.setdefault(file.path, file.url) != file.url:
            raise BadRequest(
                f"{urls[file.path]} and {file.url} would both be {file.path}. Recommend for one model at a time, each "
                "with a folder of its own."
            )


def _require_disk_space_for_files(files: Sequence[FileToFetch]) -> None:
    """Raise an error where the disk lacks space for the files, as the module model_file would."""
    missing = sum(file.size for file in files if not os.path.exists(file.path))
    if missing:
        require_disk_space(files[0].path, missing, UNITS["GiB"])


def _list_remarks(request: Request, program: str | None, removed_instances: set[str]) -> list[str]:
    remarks = []
    if request.binary and not program:
        remarks.append(
            f"There is no {request.binary} on this host. Before site.yml, put the server there or set "
            "epyc_llama_binary to its path; or set epyc_llama_install to source, with epyc_llama_source_archive and "
            "epyc_llama_source_checksum."
        )
    if removed_instances:
        remarks.append(
            f"{', '.join(map(instance_unit_name, sorted(removed_instances)))}: installed on this host and not "
            "recommended here, so site.yml would stop and remove it. Add its model, or set epyc_llama_purge to false; "
            "its memory counts as free above."
        )
    return remarks
