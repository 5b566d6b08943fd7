# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings the replay server to where a test wants it: a folder of this machine, a guest of the lab, or a container."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import capabilities

HOME = "/opt/replay"
BINARY, TRUTH = f"{HOME}/llama-server", f"{HOME}/truth.json"
#: The server that it passes for.
RECORDING = Path(__file__).parents[1] / "unit/data/llama_help/b11434.json"
PROGRAM = Path(__file__).with_name("program")
LAUNCHER = """\
#!/usr/bin/python3
import sys

from program.main import main

sys.exit(main())
"""


def files(truth: Mapping[str, Any], home: str = HOME) -> dict[str, tuple[str, int]]:
    """Return the text and the mode of each file by its path; everyone may read them, as the unit has its own user."""
    recorded = json.loads(RECORDING.read_text())
    texts = {f"program/{path.name}": path.read_text() for path in sorted(PROGRAM.glob("*.py"))}
    texts.update({f"{name}.txt": "\n".join(recorded[name]) for name in ("help", "version")})
    texts["options.json"] = json.dumps(_options(texts["help.txt"], texts["version.txt"]))
    texts["truth.json"] = json.dumps(truth, indent=1)
    return {
        f"{home}/llama-server": (LAUNCHER, 0o755),
        **{f"{home}/{name}": (text, 0o644) for name, text in texts.items()},
    }


def _options(help_text: str, version_text: str) -> dict[str, dict[str, Any]]:
    """Return what the program must know of each option, by each of its names."""
    options = capabilities.parse_capabilities(help_text, version_text).options
    names: dict[int, list[str]] = {}
    for flag, option in options.items():
        names.setdefault(id(option), []).append(flag)
    return {
        flag: {
            "name": _name(flag, names[id(option)]),
            "removed": option.is_removed,
            "takes_value": bool(option.hint),
            "many": option.takes_list,
            "values": option.offered_values,
        }
        for flag, option in options.items()
    }


def _name(flag: str, names: Sequence[str]) -> str:
    """Return the first long name that says the same as a flag: --repack and --no-repack are listed as one option."""
    denies = any(name.startswith("--no-") for name in names) and flag.startswith(("--no-", "-n"))
    return next(name for name in names if name.startswith("--") and name.startswith("--no-") == denies)


def in_folder(folder: Path, truth: Mapping[str, Any]) -> Path:
    """Put it into a folder of this machine, which a container may bind; return the program."""
    for path, (text, mode) in files(truth, str(folder)).items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
    return folder / "llama-server"


def on_guest(put: Callable[[str, bytes, int], object], truth: Mapping[str, Any]) -> None:
    """Put it on a guest, by ``functools.partial(vepyc.llama.delivery.put, machine)``."""
    for path, (text, mode) in files(truth).items():
        put(path, text.encode(), int(f"{mode:o}"))


def by_shell(run: Callable[..., object], truth: Mapping[str, Any]) -> None:
    """Put it wherever a shell is, by the ``run`` of a container or a machine, which takes ``input``."""
    for path, (text, mode) in files(truth).items():
        quoted = shlex.quote(path)
        run(f"mkdir -p $(dirname {quoted}) && cat >{quoted} && chmod {mode:o} {quoted}", input=text)
