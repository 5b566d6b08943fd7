# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded llama-servers, by tools/record_llama_help.py, and their answers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import (
    Capabilities,
    HelpOption,
    parse_capabilities,
)

DATA = Path(__file__).parents[1] / "data" / "llama_help"
ASKED = json.loads((DATA / "asked.json").read_text())
SERVERS = sorted(path.stem for path in DATA.glob("*.json") if path.name != "asked.json")


@cache
def recorded(name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return answers


def server(name: str) -> Capabilities:
    """What a recorded server can do."""
    answers = recorded(name)
    return parse_capabilities("\n".join(answers["help"]), "\n".join(answers["version"]))


def without(capabilities: Capabilities, *flags: str, build: int | None = None, **hints: str) -> Capabilities:
    """The same server without some flags, and with others whose value --help would show so; '' is for none."""
    kept = {flag: option for flag, option in capabilities.options.items() if flag not in flags}
    more = {f"--{flag.replace('_', '-')}": HelpOption(hint, "") for flag, hint in hints.items()}
    return Capabilities(
        capabilities.binary, capabilities.engine, {**kept, **more}, build or capabilities.build, capabilities.openmp
    )


def dry_run(name: str, arguments: list[str]) -> dict[str, Any] | None:
    """What a recorded server answered to an argument list, None where it was not asked."""
    runs: list[dict[str, Any]] = recorded(name)["dry_runs"]
    return next((run for run in runs if run["arguments"] == arguments), None)
