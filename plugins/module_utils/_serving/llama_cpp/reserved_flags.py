# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user may not add to a server by hand: flags and variables of what the plan says already, and secrets.

A server takes the last of two flags in silence, so that one word could undo the plan, or open a server to a network.
Under which other names and variables it knows a flag, its own --help says. A unit file is for everyone to read.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from .server_parameters import SAMPLING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .capabilities import Capabilities
    from .flags import Table

#: Flags that no table has, since nobody asks for them, and the want that they would change.
OTHERS = {
    **dict.fromkeys(("--hf-repo", "--hf-file", "--model-url", "--docker-repo"), "model"),
    **dict.fromkeys(("--models-dir", "--models-autoload"), "models"),
    **dict.fromkeys(("--cpu-range", "--cpu-range-batch"), "cpus"),
    "--direct-io": "load",
    "--mmproj-url": "projector",
}
#: Wants that an option of another name leads to.
OPTIONS = {
    "cpus": "cpus, threads and nodes",
    "numa": "memory",
    "load": "hugepages and lock",
    "repack": "hugepages",
    "draft_min": "draft_max",
    "draft_threads_batch": "draft_threads",
    "rpc": "draft_placement",
    **dict.fromkeys(SAMPLING, "sampling"),
}
ALWAYS = ("metrics", "slots_endpoint")
#: Its flag is for everything that a model file says, and may be given twice.
FREE = ("experts",)
#: Their flags are free unless the plan says them: those for devices of all kinds, of templates, adapters, and of how
#: tokens are chosen.
WHEN_WANTED = ("rpc", "rpc_workers", "rpc_layers", "chat_template", "adapters", *SAMPLING)
SECRET = re.compile(r"(?:^|[-_])(?:key|token|secret|password|passwd)\Z", re.IGNORECASE)
VARIABLE = re.compile(r"\(env: (\w+)\)")
FOR_ALL = (
    "a unit file that everyone on the host can read. Write it to a file of root, and name that file with api_key_file "
    "for keys of clients, else with EnvironmentFile in unit_settings."
)


def checked(
    words: Sequence[str], wants: Mapping[str, object], table: Table, capabilities: Capabilities
) -> Sequence[str]:
    """Return arguments of a user. BadRequest for a flag that an option owns, or that carries a secret."""
    owned = _owned(wants, table, capabilities)
    for word in words:
        flag = _flag(word)
        names = _names(flag, capabilities)
        if any(name.startswith("--") and SECRET.search(name) for name in (flag, *names)):
            raise BadRequest(f"extra_arguments: {flag} would put a secret into {FOR_ALL}")
        if flag in owned:
            raise BadRequest(f"extra_arguments: {flag} {_said(owned[flag])}")
    return words


def refuse_variables(
    variables: Mapping[str, str], wants: Mapping[str, object], table: Table, capabilities: Capabilities
) -> None:
    """Raise BadRequest for a variable that says what an option owns, or that carries a secret."""
    owned = {}
    for flag, want in _owned(wants, table, capabilities).items():
        owned.update(dict.fromkeys(VARIABLE.findall(capabilities.text(flag)), want))
    for name in variables:
        if SECRET.search(name):
            raise BadRequest(f"extra_environment: {name} would put a secret into {FOR_ALL}")
        if name in owned:
            raise BadRequest(f"extra_environment: {name} {_said(owned[name])}")


def _owned(wants: Mapping[str, object], table: Table, capabilities: Capabilities) -> dict[str, str]:
    """Return each flag under all its names, with the want that it says."""
    owned: dict[str, str] = {}
    rows = [(row.partition("=")[0].partition("/")[0], candidates) for row, candidates in table.items()]
    flags = [(word, want) for want, candidates in rows for words in candidates for word in words]
    for word, want in [*flags, *OTHERS.items()]:
        if word.startswith("--") and want not in FREE and (want not in WHEN_WANTED or want in wants):
            for name in (word, *_names(word, capabilities)):
                owned.setdefault(name, want)
    return owned


def _names(flag: str, capabilities: Capabilities) -> list[str]:
    """Return all names of a flag that this binary knows."""
    option = capabilities.options.get(flag)
    return [name for name, other in capabilities.options.items() if other is option] if option else []


def _flag(word: str) -> str:
    """Return a word as the server takes it: an underline is a dash, and a value may follow at once."""
    flag = word.partition("=")[0]
    return flag.replace("_", "-") if flag.startswith("--") else flag


def _said(want: str) -> str:
    if want in ALWAYS:
        return "is always said by the collection, which asks the server what it does. Leave it out."
    return f"is said by the plan. Leave it out, and use the option {OPTIONS.get(want, want)} of the instance."
