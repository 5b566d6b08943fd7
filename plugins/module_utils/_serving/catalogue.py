# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of engines: how the units of each are called, how its server answers, and what it cannot do.

It is plain data, which the check, the agent and the hooks of a unit read without the code that plans instances. That
code is a subclass of ``Engine`` in the folder of each engine. docs/add-an-engine.md shows how to add one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class EngineRow:
    """What is known of an engine without its code.

    ``key`` begins the names of its units, as in llama-chat.service, and ``title`` is its name for people. ``project``
    has the code of its server, and ``module`` is the Ansible module that writes its units. ``in_work`` are the metrics
    whose sum is the number of requests that its server has, and ``health_is_json`` says whether /health answers with an
    object that has a status. ``completions`` is the path at which it continues a text. ``has_drafts`` says whether an
    instance may have a second unit, whose name ends in -rpc, and ``has_state`` whether a unit has a folder below
    /var/lib, which goes with it. ``cannot`` has a sentence for each feature of the common code that this engine lacks.
    """

    __slots__ = (
        *("key", "title", "project", "module", "in_work", "health_is_json", "completions", "has_drafts", "has_state"),
        "cannot",
    )

    def __init__(
        self,
        key: str,
        title: str,
        project: str,
        module: str,
        in_work: tuple[str, ...],
        health_is_json: bool = False,
        completions: str = "/v1/completions",
        has_drafts: bool = False,
        has_state: bool = False,
        cannot: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self.title = title
        self.project = project
        self.module = module
        self.in_work = in_work
        self.health_is_json = health_is_json
        self.completions = completions
        self.has_drafts = has_drafts
        self.has_state = has_state
        self.cannot = dict(cannot or {})

    def unit_of(self, name: str) -> str:
        """Return the name of the unit of an instance."""
        return f"{self.key}-{name}.service"

    def units_of(self, name: str) -> list[str]:
        """Return the names of all units that an instance may have, that of its server first."""
        return [self.unit_of(name), *([self.unit_of(f"{name}-rpc")] if self.has_drafts else [])]

    def state_folders(self, name: str) -> list[str]:
        """Return the folders that systemd keeps for the unit of an instance, and for its user where it makes one."""
        state = self.unit_of(name)[: -len(".service")]
        return [f"/var/lib/{state}", f"/var/lib/private/{state}"] if self.has_state else []


ENGINES: dict[str, EngineRow] = {}


def add_engine(row: EngineRow) -> EngineRow:
    """Return a row, which is in the table from now on."""
    ENGINES[row.key] = row
    return row


LLAMA = add_engine(
    EngineRow(
        key="llama",
        title="llama-server",
        project="llama.cpp",
        module="llama_server",
        in_work=("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        health_is_json=True,
        completions="/completion",
        has_drafts=True,
    )
)
VLLM = add_engine(
    EngineRow(
        key="vllm",
        title="vLLM",
        project="vLLM",
        module="vllm_server",
        in_work=("vllm:num_requests_running", "vllm:num_requests_waiting"),
        has_state=True,
        cannot={
            "speculation": "vLLM guesses no tokens here, because its instances have no option for that.",
            "ablation": "Other options are tried for instances of llama-server only.",
        },
    )
)


def unit_prefix_of(unit: str) -> str:
    """Return the key of the engine that a unit belongs to by its name; "" for a unit of no engine."""
    key = unit.partition("-")[0]
    return key if key in ENGINES and unit.endswith(".service") else ""
