# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A changed instance started beside the one that runs, which is stopped only after the new one has served.

It is the same instance under another name, at a free port of the loopback, in units that are there for the moment only.
That it serves is proof that it computes: before it says so, a server has a batch go through the model.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import TuningError
from ..._io import command, textfile
from ..._io.paths import UNIT_FOLDER
from ..._io.sandbox import RUNTIME_UNIT_FOLDER
from ..._io.web.free_port import find_free_port
from ..._knobs.managed_units import run_systemctl
from ..._notation.cpulist import parse_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..options.option_table import LOOPBACK
from .shared_host import plan_with_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..plan.instance_plan import InstancePlan
    from .engine import Engine, HeldMemory

#: Ends the name for the moment; the whole has to be a name of an instance.
END, LONGEST = "-next", 35
#: It ends by itself soon after it serves, should nobody be there any more who takes it away.
TEMPORARY_DROP_IN = "[Service]\nRestart=no\nRuntimeMaxSec=60\n"


def temporary_name(name: str) -> str:
    """Return the name of an instance while it is beside the one that runs."""
    return f"{name[:LONGEST]}{END}"


def plan_temporary_instance(
    engine: Engine,
    host: Host,
    raw: Mapping[str, Any],
    capabilities: Any,
    held: Sequence[HeldMemory],
    before: Sequence[InstancePlan],
    runs: Mapping[str, Any] | None,
) -> InstancePlan:
    """Plan an instance beside the one that runs, whose plan is ``runs``; BadRequest where both do not fit."""
    asked = dict(raw, name=temporary_name(raw["name"]), host=LOOPBACK[0], port=find_free_port(), watchdog=None)
    if raw.get("rpc_port"):
        asked["rpc_port"] = find_free_port()
    options = engine.options.parse(asked)
    in_use = _count_replaced_pages_as_held(engine.list_model_paths(options), runs)
    return plan_with_others(engine, host, options, capabilities, [*held, *in_use], before)


def require_units_serve(files: Mapping[str, str]) -> None:
    """Start the units with these texts by path, the first of which needs the others, and remove them again.

    TuningError says why the instance does not serve; the one that runs was not touched.
    """
    texts = {path.replace(UNIT_FOLDER, RUNTIME_UNIT_FOLDER, 1): text for path, text in files.items()}
    units = [os.path.basename(path) for path in texts]
    folder = f"{RUNTIME_UNIT_FOLDER}/{units[0]}.d"
    texts[f"{folder}/moment.conf"] = TEMPORARY_DROP_IN
    try:
        for path, text in texts.items():
            textfile.write_file(path, text)
        command.run_command(["systemctl", "daemon-reload"])
        run_systemctl("restart", units[:1])
    except TuningError as error:
        error.args = (f"It was started beside the one that runs, which was left alone, and does not serve: {error}",)
        raise
    finally:
        with suppress(TuningError):
            run_systemctl("stop", units)
            # One that failed would be listed after it is gone.
            run_systemctl("reset-failed", units)
        for path in texts:
            textfile.remove_file(path)
        with suppress(OSError):  # it is not there
            os.rmdir(folder)
        command.run_command(["systemctl", "daemon-reload"])


def _count_replaced_pages_as_held(model_files: Sequence[str], runs: Mapping[str, Any] | None) -> list[HeldMemory]:
    """Count as taken what the running instance maps and the new one does not: the kernel calls such pages available."""
    nodes = parse_cpulist(runs["expect"]["nodes"]) if runs else ()
    own = [part for path in model_files for part in list_gguf_parts(path)]
    others = [path for path in runs["mapped"] if path not in own] if runs else []
    size = sum(os.path.getsize(path) for path in others if os.path.exists(path))
    return [(dict.fromkeys(nodes, -size // len(nodes)), {})] if size and nodes else []
