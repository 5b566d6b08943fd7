# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of an engine, which the folder of each engine implements.

The common code parses options, and plans, writes, starts, checks and removes the units of instances. An engine adds
what its program can do, which arguments the options become, how much memory they need, and the lines that only its unit
has. How its server answers, and which features it lacks, is in its row of the catalogue.
"""

from __future__ import annotations

from .refusals import read_keys_change_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..catalogue import EngineRow
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan

    #: The memory of one process: bytes by node, and huge pages by node and page size in kB.
    HeldMemory = tuple[dict[int, int], dict[tuple[int, int], int]]


class Engine:
    """An engine. Only its own methods look into the ``capabilities`` that its ``read_capabilities`` returns."""

    row: EngineRow
    #: The class with the options of an instance of this engine.
    options: type[OptionTable]

    def read_capabilities(self, host: Host, options: Any) -> Any:
        """Return what the program of an instance can do. TuningError for a program that does not run or is another."""
        raise NotImplementedError

    def list_model_paths(self, options: Any) -> list[str]:
        """Return the paths of the models of an instance, which are read before the instance is planned."""
        raise NotImplementedError

    def require_valid_files(self, options: Any, pending: Collection[str]) -> None:
        """Raise BadRequest for a file of an instance that cannot be used; files in ``pending`` may be missing."""

    def remember_installed_unit(self, name: str, text: str) -> None:
        """Remember what the installed unit of an instance says, before the instance is planned anew.

        An engine that chooses values itself leaves them as they are where they still serve, because another value
        would restart the server.
        """

    def plan_instance(
        self, host: Host, options: Any, capabilities: Any, held: Sequence[HeldMemory], before: Sequence[InstancePlan]
    ) -> InstancePlan:
        """Return the planned instance: its CPUs, its nodes, and the memory that it needs on them.

        ``held`` is memory that others hold now and that is free when the instance starts; ``before`` are the planned
        instances that start earlier. BadRequest where this host has no room for the instance.
        """
        raise NotImplementedError

    def has_unit_on_this_host(self, service: InstancePlan) -> bool:
        """Return whether this host gets the unit of an instance; elsewhere, only its memory is reserved."""
        return True

    def build_arguments(self, service: InstancePlan, capabilities: Any) -> list[str]:
        """Return the arguments with which the program of an instance is started."""
        raise NotImplementedError

    def list_program_file_sizes_and_times(self, service: InstancePlan, capabilities: Any) -> dict[str, list[int]]:
        """Return the program files of an instance, each with size and time of change in ns."""
        files: dict[str, list[int]] = capabilities.files
        return dict(files)

    def read_keys_change_time(self, options: Any, capabilities: Any) -> int | None:
        """Return when the API keys changed, in ns; None without keys. BadRequest for an empty file."""
        return read_keys_change_time(options, False, self.row.title)

    def render_units(
        self,
        service: InstancePlan,
        arguments: Sequence[str],
        programs: Mapping[str, list[int]],
        keys_changed_at: int | None,
    ) -> dict[str, str]:
        """Return the text of each unit of an instance by the path of its file."""
        raise NotImplementedError

    def try_program_in_sandbox(
        self, host: Host, service: InstancePlan, capabilities: Any, arguments: Sequence[str]
    ) -> list[str]:
        """Try what a start needs, and return remarks. BadRequest where the start would fail."""
        return []
