# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""llama.cpp and ik_llama.cpp as one engine of instances: how an instance is planned and tried before its start."""

from __future__ import annotations

import os
import re
import stat

from ..._errors import BadRequest
from ..catalogue import LLAMA
from ..hooks import keys
from ..hooks.rpc_workers import wait_for_workers
from ..options import rpc_endpoints, unit_settings
from ..options.options import Options
from ..plan import planner
from ..unit import hardening
from ..unit.engine import Engine
from ..unit.refusals import read_keys_change_time, require_readable_files
from ..unit.shared_host import read_free_memory_for_instance
from . import arguments as server_arguments
from . import probe, reserved_flags, suffix_corpus, units
from .model_checks import ServedFiles, require_loadable_models, require_sound_headers
from .unsafe_flags import list_flag_remarks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..._host.host import Host
    from ..plan.instance_plan import InstancePlan
    from ..unit.engine import HeldMemory
    from .capabilities import Capabilities

#: How many seconds a worker on another host may take to answer before this host is changed.
WORKER_SECONDS = 10
#: Options with the path of a file that is no model. The server is restarted when such a file changes.
OTHER_FILES = ("chat_template", "suffix_corpus")
#: The size of the prompt cache in MiB, in the command of an installed unit.
INSTALLED_PROMPT_CACHE = re.compile(r"^ExecStart=.* --cache-ram (\d+)(?: |$)", re.MULTILINE)


class LlamaEngine(Engine):
    """The engine of instances of llama-server, which is built from llama.cpp or from ik_llama.cpp."""

    row = LLAMA
    options = Options

    def __init__(self) -> None:
        #: By path of a binary, the remarks of its trial in this run, in which it computed one token.
        self._token_remarks: dict[str, list[str]] = {}
        #: By name of an installed instance, the size of its prompt cache in MiB.
        self._installed_prompt_caches: dict[str, int] = {}

    def read_capabilities(self, host: Host, options: Options) -> Capabilities:
        return probe.probe_capabilities(options.binary, hardening.trial_sandbox_lines(options, []))

    def list_model_paths(self, options: Options) -> list[str]:
        optional = (options.draft_model if options.uses_draft else None, options.projector)
        return [*options.model_paths, *(path for path in optional if path), *options.adapters]

    def require_valid_files(self, options: Options, pending: Collection[str]) -> None:
        files = ServedFiles(options, pending)
        _read_size_and_time_of_other_files(options)
        require_sound_headers(files, None)
        require_loadable_models(files, None)
        if options.api_key_file:
            keys.read_api_keys(options.api_key_file)

    def remember_installed_unit(self, name: str, text: str) -> None:
        """Remember the prompt cache of an installed instance, because another default would restart its server."""
        found = INSTALLED_PROMPT_CACHE.search(text)
        if found:
            self._installed_prompt_caches[name] = int(found.group(1))

    def plan_instance(
        self,
        host: Host,
        options: Options,
        capabilities: Capabilities,
        held: Sequence[HeldMemory],
        before: Sequence[InstancePlan],
    ) -> InstancePlan:
        files = ServedFiles(options)
        require_sound_headers(files, capabilities)
        model, *more = files.models
        draft, projector = next(iter(files.drafts), None), next(iter(files.projectors), None)
        weights = [weight for weight in (model, draft, *more) if weight]
        free = read_free_memory_for_instance(host, options, weights, held, before)
        service = planner.plan_instance(
            options,
            host,
            capabilities,
            model,
            draft,
            free,
            projector,
            files.adapters,
            more,
            self._installed_prompt_caches.get(options.name),
        )
        service.files.update(_read_size_and_time_of_other_files(options))
        return service

    def build_arguments(self, service: InstancePlan, capabilities: Capabilities) -> list[str]:
        """Return the arguments of the server, and add remarks on the arguments and variables of a user to its plan."""
        options = service.options
        flags = [reserved_flags.normalize_flag(word) for word in options.extra_arguments]
        service.remarks += list_flag_remarks(flags, options.extra_environment, capabilities)
        return server_arguments.build_arguments(service.parameters, capabilities)

    def list_program_file_sizes_and_times(
        self, service: InstancePlan, capabilities: Capabilities
    ) -> dict[str, list[int]]:
        options = service.options
        server_arguments.refuse_reserved_or_secret_variables(
            options.extra_environment, service.parameters, capabilities
        )
        programs = dict(capabilities.files)
        if service.rpc:
            binary = units.draft_rpc_server_path(options)
            programs.update(
                probe.list_program_file_sizes_and_times(binary, hardening.trial_sandbox_lines(options, [binary]))
            )
        return programs

    def read_keys_change_time(self, options: Options, capabilities: Capabilities) -> int | None:
        """Return when the file of API keys changed, in ns. BadRequest where a comment in it would be a key."""
        return read_keys_change_time(options, capabilities.allows_key_comments, capabilities.title)

    def render_units(
        self,
        service: InstancePlan,
        arguments: Sequence[str],
        programs: Mapping[str, list[int]],
        keys_changed_at: int | None,
    ) -> dict[str, str]:
        return units.render_llama_units(service, arguments, programs, keys_changed_at)

    def try_program_in_sandbox(
        self, host: Host, service: InstancePlan, capabilities: Capabilities, arguments: Sequence[str]
    ) -> list[str]:
        """Verify in the unit's sandbox that a server can read its files, accepts its arguments and runs on this CPU.

        Each binary computes one token, even for several instances. Returns remarks; BadRequest where the trial fails.
        """
        options = service.options
        require_loadable_models(ServedFiles(options), capabilities)
        if options.rpc_workers and not host.fs.read_only:
            wait_for_workers(rpc_endpoints.format_rpc_flag_value(options.rpc_workers), WORKER_SECONDS)
        behind = hardening.trial_sandbox_lines(options, service.files)
        require_readable_files(options, list(service.files), service.staged, behind)
        folders = unit_settings.list_unit_folders(options.unit_settings)
        folders += [service.parameters["slot_files"]] if options.slot_files else []
        probe.require_accepted_arguments(options.binary, arguments, behind, folders)
        if options.binary not in self._token_remarks:
            self._token_remarks[options.binary] = probe.try_to_compute_one_token(options.binary, capabilities, behind)
        return self._token_remarks[options.binary]


def _read_size_and_time_of_other_files(options: Options) -> dict[str, list[int]]:
    paths = {option: getattr(options, option) for option in OTHER_FILES}
    files = {path: _read_size_and_change_time(option, path) for option, path in paths.items() if path}
    if options.suffix_corpus:
        suffix_corpus.validate_suffix_corpus(options.suffix_corpus)
    return files


def _read_size_and_change_time(option: str, path: str) -> list[int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise BadRequest(f"{option}: {path} cannot be read ({error.strerror}). Bring it to the host first.") from None
    if not status.st_size or not stat.S_ISREG(status.st_mode):
        raise BadRequest(f"{option}: {path} is no file with something in it.")
    return [status.st_size, status.st_mtime_ns]
