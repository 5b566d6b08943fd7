# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses flags and environment variables that a user may not add to a server: those of the plan, secrets, and unsafe
ones.

A server silently uses the last of two equal flags, so that one added flag could undo the plan, or open the server to a
network. --help lists the other names of a flag, and the environment variable that stands for the flag. Secrets are
refused because everyone on the host can read a unit file.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from .server_parameters import SAMPLING_PARAMETERS
from .unsafe_flags import VARIABLE, unsafe_flag_reason, unsafe_variable_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .capabilities import Capabilities
    from .flags import Table

#: Reserved flags that no flag table has, and the parameter that each of them would change.
RESERVED_WITHOUT_TABLE = {
    **dict.fromkeys(("--hf-repo", "--hf-file", "--model-url", "--docker-repo"), "model"),
    **dict.fromkeys(("--models-dir", "--models-autoload"), "models"),
    **dict.fromkeys(("--cpu-range", "--cpu-range-batch"), "cpus"),
    "--direct-io": "load",
    "--mmproj-url": "projector",
}
#: By parameter, the options of an instance that set it, where they have another name than the parameter.
OPTION_OF_PARAMETER = {
    "cpus": "cpus, threads and nodes",
    "numa": "memory",
    "load": "hugepages and lock",
    "draft_min": "draft_max",
    "keep_idle_slots": "prompt_cache",
    "slot_limit": "context_per_slot",
    "draft_threads_batch": "draft_threads",
    "rpc": "draft_placement",
    **dict.fromkeys(SAMPLING_PARAMETERS, "sampling"),
}
SET_BY_COLLECTION = ("metrics", "slots_endpoint", "reuse_port")
#: Parameters whose flag a user may add again: each use of the first overrides another value of a model file.
NEVER_RESERVED = ("experts", "fit")
#: Parameters whose flags are reserved only where the plan sets these parameters.
RESERVED_WHEN_SET = (
    *("rpc", "rpc_workers", "rpc_layers", "chat_template", "adapters", "slot_files", "keep_idle_slots"),
    *SAMPLING_PARAMETERS,
)
SECRET = re.compile(r"(?:^|[-_])(?:key|token|secret|password|passwd)\Z", re.IGNORECASE)
READABLE_BY_ALL = (
    "a unit file that everyone on the host can read. Write it to a file of root, and name that file with api_key_file "
    "for keys of clients, else with EnvironmentFile in unit_settings."
)


def refuse_reserved_or_secret_flags(
    words: Sequence[str], parameters: Mapping[str, object], table: Table, capabilities: Capabilities
) -> Sequence[str]:
    """Return the arguments of a user unchanged; BadRequest for a reserved flag, or for a flag that takes a secret."""
    owned = _map_reserved_flags_to_parameters(parameters, table, capabilities)
    for word in words:
        flag = normalize_flag(word)
        names = capabilities.flag_names(flag)
        if any(name.startswith("--") and SECRET.search(name) for name in (flag, *names)):
            raise BadRequest(f"extra_arguments: {flag} would put a secret into {READABLE_BY_ALL}")
        if flag in owned:
            raise BadRequest(f"extra_arguments: {flag} {_reserved_flag_message(owned[flag])}")
        reason = unsafe_flag_reason(flag, capabilities)
        if reason:
            raise BadRequest(f"extra_arguments: {flag} {reason}")
    return words


def refuse_reserved_or_secret_variables(
    variables: Mapping[str, str], parameters: Mapping[str, object], table: Table, capabilities: Capabilities
) -> None:
    """Raise BadRequest for an environment variable that stands for a reserved flag, or that has a secret."""
    owned = {}
    for flag, parameter in _map_reserved_flags_to_parameters(parameters, table, capabilities).items():
        owned.update(dict.fromkeys(VARIABLE.findall(capabilities.flag_description(flag)), parameter))
    for name in variables:
        if SECRET.search(name):
            raise BadRequest(f"extra_environment: {name} would put a secret into {READABLE_BY_ALL}")
        if name in owned:
            raise BadRequest(f"extra_environment: {name} {_reserved_flag_message(owned[name])}")
        reason = unsafe_variable_reason(name, capabilities)
        if reason:
            raise BadRequest(f"extra_environment: {name} {reason}")


def _map_reserved_flags_to_parameters(
    parameters: Mapping[str, object], table: Table, capabilities: Capabilities
) -> dict[str, str]:
    owned: dict[str, str] = {}
    rows = [(row.partition("=")[0].partition("/")[0], candidates) for row, candidates in table.items()]
    flags = [(word, parameter) for parameter, candidates in rows for words in candidates for word in words]
    for word, parameter in [*flags, *RESERVED_WITHOUT_TABLE.items()]:
        if (
            word.startswith("--")
            and parameter not in NEVER_RESERVED
            and (parameter not in RESERVED_WHEN_SET or parameter in parameters)
        ):
            for name in capabilities.flag_names(word):
                owned.setdefault(name, parameter)
    return owned


def normalize_flag(word: str) -> str:
    """Return the flag in an argument as the server reads the flag: with dashes for underlines, without a value."""
    flag = word.partition("=")[0]
    return flag.replace("_", "-") if flag.startswith("--") else flag


def _reserved_flag_message(parameter: str) -> str:
    if parameter in SET_BY_COLLECTION:
        return "is always set by the collection, which needs it to watch or to replace the server. Leave it out."
    option = OPTION_OF_PARAMETER.get(parameter, parameter)
    return f"is set by the plan. Leave it out, and use the option {option} of the instance."
