# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recommends the variables of an inventory for this host and these models, from topology, memory and model headers.

Nothing is written and no program is run but systemctl, which says which instances run. What they hold counts as free,
because site.yml replaces them.
"""

from __future__ import annotations

import os
import re

from ..._errors import BadRequest
from ..._io.web.download import require_disk_space
from ..._models import model_source as sources
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.sizes import UNITS
from ..options.options import Options
from ..options.unit_names import instance_unit
from ..plan.free_memory import read_free_memory
from ..unit.installed import installed_units, plan_of
from ..unit.planned import held_by, running
from ..unit.refusals import refuse_taken_port
from . import host_variables, model_variables
from .host_sharing import seated
from .largest_fit import Candidate, fit, refuse_what_never_fits, task_of
from .model_request import parse
from .variables_file import page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._io.kernelfs import KernelFS
    from ..._models.model import Model
    from ..._models.model_source import File
    from ..plan.free_memory import FreeMemory
    from ..plan.instance_plan import InstancePlan
    from .model_request import Asked

#: The share of each node's memory that stays for other programs and for the kernel.
KEPT = 0.05
LAST_PORT = 65535
PORTS_TRIED = 100
LONGEST_NAME = 36
HEAD = (
    "The variables that playbooks/recommend.yml of sovereign.epyc recommends for one host and its models, each with "
    "its reason and its cost. Nothing of it was measured on this host.",
)


class Request:
    """What is asked for beside the models: a folder for files, the first port, the server's program, seconds."""

    __slots__ = ("binary", "folder", "port", "timeout")

    def __init__(self, folder: str, port: int, binary: str | None, timeout: int) -> None:
        if not folder.startswith("/"):
            raise BadRequest(f"folder is '{folder}'; say the whole path, beginning with /.")
        self.folder = folder
        self.port = port
        self.binary = binary
        self.timeout = timeout


def recommend(fs: KernelFS, models: object, request: Request, root: str = "/") -> dict[str, Any]:
    """Return ``text``, the file of variables, the same as plain data in ``variables``, the plans, and remarks.

    BadRequest says which model cannot be served here, with numbers, or what is wrong with the request.
    """
    wishes = [Wish(asked, request) for asked in parse(models)]
    _refuse_two_of_a_name([file for wish in wishes for file in [*wish.files, *wish.draft_files]])
    host = host_variables.intended(fs)
    installed = installed_units(root)
    runs = running(list(installed))
    ending_urls = [(plan_of(installed[name]) or {}).get("url", "") for name in runs]
    free = _free(host, wishes[0], runs)
    huge = free.thp != "never"
    for wish in wishes:
        refuse_what_never_fits(host, free, wish.candidate({}), wish.asked)
    candidates, services = _placed(host, free, wishes, request, ending_urls)
    notes = [_left_out(one, service) for one, service in zip(candidates, services)]
    drafts = {one.draft.path for one in candidates if one.draft}
    files = list({file.path: file for wish in wishes for file in wish.needed(drafts)}.values())
    _check_space(files)
    program = request.binary if request.binary and os.path.exists(request.binary) else None
    lines = [
        *host_variables.lines(host, huge),
        *model_variables.server(program),
        *model_variables.models(files),
        model_variables.instances(candidates, services, notes),
    ]
    head = [*HEAD, host_variables.describe(host, sum(free.available.values()))]
    head += [model_variables.describe(wish.model) for wish in wishes]
    return {
        "text": page(head, lines),
        "variables": {line.key: line.plain() for line in lines},
        "services": {service.name: service.to_dict() for service in services},
        "remarks": _remarks(request, program, set(installed) - {service.name for service in services}),
    }


class Wish:
    """A model that is asked for, read from its headers, with its draft."""

    def __init__(self, asked: Asked, request: Request) -> None:
        self.asked = asked
        found = sources.read(asked.model, asked.checksum, request.folder, request.timeout)
        self.model: Model = found.model
        self.files = list(found.files)
        self.draft: Model | None = None
        self.draft_files: list[File] = []
        if self.model.architecture == "clip":
            raise BadRequest(f"{asked.model} is a projector and serves nothing by itself. Name the model it is for.")
        if asked.draft and task_of(self.model):
            raise BadRequest(f"{asked.model} makes no text, so that nothing can draft for it. Leave draft out.")
        if asked.draft:
            found = sources.read(asked.draft, asked.draft_checksum, request.folder, request.timeout)
            self.draft, self.draft_files = found.model, list(found.files)

    def candidate(self, fixed: Mapping[str, Any]) -> Candidate:
        """Return the instance to be, under a name of its own."""
        named = {"name": "model", "port": LAST_PORT, **fixed}
        return Candidate(self.asked, self.model, self.draft, named)

    def needed(self, drafts: set[str]) -> list[File]:
        """Return the files to fetch, with those of the draft if that is among the ones that are used."""
        return [*self.files, *(self.draft_files if self.draft and self.draft.path in drafts else [])]


def _free(host: Host, wish: Wish, runs: Sequence[str]) -> FreeMemory:
    """Return the memory that instances may have: what is available, and what those hold that run now."""
    free = read_free_memory(host, wish.candidate({}).options(), [])
    for name in runs:
        for memory, pages in held_by(host, name):
            free.add_free(memory, pages)
    free.add_free({node.id: -int(KEPT * node.bytes) for node in host.topology.nodes}, {})
    return free


def _placed(
    host: Host, free: FreeMemory, wishes: Sequence[Wish], request: Request, ending_urls: Sequence[str]
) -> tuple[list[Candidate], list[InstancePlan]]:
    """Return the instances and their plans: one of each model, or one on each socket of a model that is alone."""
    huge = {"hugepages": "thp"} if free.thp != "never" else {}
    names = _names([wish.model.path for wish in wishes])
    ports = _ports(request.port, ending_urls)
    sockets = host.topology.sockets
    if len(wishes) > 1:
        candidates = [wish.candidate({"name": name, "port": next(ports), **huge}) for wish, name in zip(wishes, names)]
        return candidates, seated(host, free, candidates)
    (wish,) = wishes
    # Without memory of its own for each, a file would be mapped on both sockets, and can lie on one only.
    if len(sockets) > 1 and huge:
        each = [{"name": f"{names[0]}-{n}", "port": next(ports), "cpus": f"socket{n}", **huge} for n in sorted(sockets)]
        candidates = [wish.candidate(fixed) for fixed in each]
        try:
            services = fit(host, free, candidates)
        except BadRequest:
            services = []
        if services and all(one.best_context for one in candidates):
            return candidates, services
    alone = wish.candidate({"name": names[0], "port": next(_ports(request.port, ending_urls)), **huge})
    return [alone], fit(host, free, [alone])


def _names(paths: Sequence[str]) -> list[str]:
    """Return a name for the instance of each model, from the name of its file."""
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


def _ports(first: int, ending_urls: Sequence[str]) -> Iterator[int]:
    """Yield ports from the first on that no other program has; those of instances that run now are free by then."""
    for port in range(first, min(first + PORTS_TRIED, LAST_PORT + 1)):
        one = Options.parse({"name": "port", "binary": "/port", "model": "/port", "port": port})
        try:
            refuse_taken_port(one, ending_urls)
        except BadRequest:
            continue
        yield port
    raise BadRequest(f"port: other programs have all ports from {first} on that were tried. Give another first port.")


def _left_out(one: Candidate, service: InstancePlan) -> str:
    """Take a draft away that the plan has left out, and return the reason; an empty text where none was."""
    if not one.draft or "draft_model" in service.parameters:
        return ""
    path, one.draft = one.draft.path, None
    return next((remark for remark in service.remarks if path in remark and "gain nothing" in remark), "")


def _refuse_two_of_a_name(files: Sequence[File]) -> None:
    urls: dict[str, str] = {}
    for file in files:
        if urls.setdefault(file.path, file.url) != file.url:
            raise BadRequest(
                f"{urls[file.path]} and {file.url} would both be {file.path}. Recommend them one by one, each with a "
                "folder of its own."
            )


def _check_space(files: Sequence[File]) -> None:
    """Refuse files for which the disk has no room, as model_file would."""
    missing = sum(file.size for file in files if not os.path.exists(file.path))
    if missing:
        require_disk_space(files[0].path, missing, UNITS["GiB"])


def _remarks(request: Request, program: str | None, gone: set[str]) -> list[str]:
    found = []
    if request.binary and not program:
        found.append(
            f"There is no {request.binary} on this host. Before site.yml, put the server there or set llama_binary to "
            "where it is; or set llama_install to source, with llama_source_archive and llama_source_checksum."
        )
    if gone:
        found.append(
            f"{', '.join(map(instance_unit, sorted(gone)))}: installed on this host and not recommended here, so "
            "site.yml would stop and remove it. Add its model, or set llama_purge to false; its memory counts "
            "as free above."
        )
    return found
