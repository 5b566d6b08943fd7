# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes results and executed modules of a play to a file, as lines of JSON, for programs to read.

A line is the result of a task on a host, or a module that was executed on a host. A task may execute no module, as
debug does, or several modules, as copy does; each executed module takes time on the host.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase


def append_json_line(line: dict[str, Any]) -> None:
    with open(os.environ["RECORD_FILE"], "a", encoding="utf-8") as file:
        print(json.dumps(line, default=str), file=file)


def wrap_to_record_modules(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method by which action plugins execute modules, to record each; forked workers inherit the wrapper."""

    @functools.wraps(execute)
    def execute_module(self: Any, module_name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        append_json_line({"module": module_name or self._task.action, "by": self._task.name})
        return execute(self, module_name, *args, **kwargs)

    return execute_module


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        ActionBase._execute_module = wrap_to_record_modules(ActionBase._execute_module)

    def _record_result(self, status: str, result: Any) -> None:
        append_json_line({"task": result.task.name, "host": result.host.name, "status": status, **result.result})

    def v2_runner_on_ok(self, result: Any) -> None:
        self._record_result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._record_result("failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._record_result("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._record_result("unreachable", result)
