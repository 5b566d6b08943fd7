# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of engines: the names of their units, how their servers answer, and which features they lack.

The table is plain data, so that the drift check, the agent and the hooks of a unit need not load the code that plans
instances. That code is a subclass of ``Engine`` in the folder of each engine; see docs/add-an-engine.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class EngineRow:
    """The facts of one engine that the common code of all engines needs.

    ``key`` begins the names of the engine's units, as in llama-chat.service; ``title`` is the engine's name for people.
    ``project`` is the project whose server runs, and ``module`` the Ansible module that writes the units. The sum of
    ``active_request_metrics`` is the number of requests that a server works on or has queued. ``health_is_json`` is
    True where the server answers /health with a JSON object that has a status. ``completions`` is the path of the HTTP
    endpoint that continues a text. ``has_drafts`` is True where an instance may have a second unit, whose name ends in
    -rpc. ``has_state`` is True where a unit has a state folder below /var/lib. ``cannot`` has, for each feature that
    the engine lacks, a sentence for people.
    """

    __slots__ = (
        *("key", "title", "project", "module", "active_request_metrics", "health_is_json", "completions"),
        *("has_drafts", "has_state", "cannot"),
    )

    def __init__(
        self,
        key: str,
        title: str,
        project: str,
        module: str,
        active_request_metrics: tuple[str, ...],
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
        self.active_request_metrics = active_request_metrics
        self.health_is_json = health_is_json
        self.completions = completions
        self.has_drafts = has_drafts
        self.has_state = has_state
        self.cannot = dict(cannot or {})

    def unit_name(self, instance: str) -> str:
        return f"{self.key}-{instance}.service"

    def unit_names(self, instance: str) -> list[str]:
        """Return the names of all units that an instance may have; the unit of the server is the first."""
        return [self.unit_name(instance), *([self.unit_name(f"{instance}-rpc")] if self.has_drafts else [])]

    def state_folders(self, instance: str) -> list[str]:
        """Return the state folders of an instance's unit; systemd uses the private one for a dynamic user."""
        state = self.unit_name(instance)[: -len(".service")]
        return [f"/var/lib/{state}", f"/var/lib/private/{state}"] if self.has_state else []


ENGINES: dict[str, EngineRow] = {}


def register_engine(row: EngineRow) -> EngineRow:
    """Add a row to the table of engines, and return the row."""
    ENGINES[row.key] = row
    return row


LLAMA = register_engine(
    EngineRow(
        key="llama",
        title="llama-server",
        project="llama.cpp",
        module="llama_server",
        active_request_metrics=("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        health_is_json=True,
        completions="/completion",
        has_drafts=True,
        has_state=True,
    )
)
VLLM = register_engine(
    EngineRow(
        key="vllm",
        title="vLLM",
        project="vLLM",
        module="vllm_server",
        active_request_metrics=("vllm:num_requests_running", "vllm:num_requests_waiting"),
        has_state=True,
        cannot={
            "speculation": "vLLM guesses no tokens here, because its instances have no option for that.",
            "ablation": "Other options are tried for instances of llama-server only.",
        },
    )
)


def engine_key_of_unit(unit: str) -> str:
    """Return the key of the engine to which a unit of this name belongs; "" for a unit of no engine."""
    key = unit.partition("-")[0]
    return key if key in ENGINES and unit.endswith(".service") else ""
