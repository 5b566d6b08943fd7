# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance that an ablation can leave out, each with what is then said no more.

That is a list of words: flags of the server, variables of its environment with an equals sign behind them, and settings
of its unit in the same form. What decides on the model, on who reaches it and on how much it takes is never left out.
Source: tools/server/README.md of llama.cpp, systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

from .._io import textfile
from .._io.paths import UNIT_FOLDER
from .._knobs.catalogue import RESTART
from .._notation.unit_syntax import format_command_line
from .arm_switch import Variant, environment, service_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import Target
    from .._host.host import Host

#: Name -> the beginnings of the flags that say it.
FLAGS: dict[str, tuple[str, ...]] = {
    "threads": ("--threads",),
    "batch threads": ("--threads-batch",),
    "CPU masks": ("--cpu-mask", "--cpu-strict"),
    "speculation": ("--spec-", "--draft", "--model-draft", "--threads-draft", "--threads-batch-draft", "--rpc"),
    "batch sizes": ("--batch-size", "--ubatch-size"),
    "KV cache types": ("--cache-type-",),
    "flash attention": ("--flash-attn",),
    "load mode": ("--load-mode", "--mmap", "--no-mmap", "--mlock"),
    "repacking": ("--repack", "--no-repack"),
    "NUMA mode": ("--numa",),
}
#: Flags that are what they are called, not the beginning of others.
WHOLE = ("--threads", "--threads-batch", "--repack")
OPENMP, VARIABLES = "OpenMP environment", ("OMP_", "GOMP_", "KMP_")
#: Name -> settings of the unit, each with the lines that have systemd do without it.
UNIT: dict[str, dict[str, tuple[str, ...]]] = {
    "memory policy": {"NUMAPolicy=": ("NUMAPolicy=default", "NUMAMask=")},
    "CPU set": {"AllowedCPUs=": ("AllowedCPUs={online}",), "CPUAffinity=": ("CPUAffinity=",)},
}
SPECULATION = "speculation"


def of_instance(target: Target, host: Host) -> list[dict[str, Any]]:
    """Return the options that an instance was given, as schedule.arms takes them."""
    said: dict[str, list[str]] = {}
    for words in _options(target.arguments[1:]):
        name = next((name for name, begins in FLAGS.items() if _is_one(words[0], begins)), None)
        if name is not None:
            said.setdefault(name, []).append(words[0])
    variables = sorted(name for name in environment(host.fs, target.process) if name.startswith(VARIABLES))
    if variables:
        said[OPENMP] = [f"{name}=" for name in variables]
    lines = (
        textfile.read_text(textfile.path_in_tree(host.fs.root, f"{UNIT_FOLDER}/{target.units[0]}")) or ""
    ).splitlines()
    for name, settings in UNIT.items():
        there = [one for one in settings if any(line.startswith(one) and line != one for line in lines)]
        if there:
            said[name] = there
    return [{"name": name, "class": RESTART, "settings": {}, "arguments": words} for name, words in said.items()]


def without(arguments: Sequence[str], left_out: Collection[str]) -> list[str]:
    """Return the arguments of a server, the program first, without some flags and what they are given."""
    kept = [word for words in _options(arguments[1:]) if words[0] not in left_out for word in words]
    return [arguments[0], *kept]


def variants(target: Target, host: Host) -> Callable[[Mapping[str, Any]], Variant]:
    """Return what says how an arm has the unit of an instance, which is as it was planned now."""
    arguments, fs = target.arguments, host.fs

    def variant(arm: Mapping[str, Any]) -> Variant:
        gone = arm["arguments"]
        lines = drop_in(arguments, gone, fs.read("/sys/devices/system/cpu/online"))
        return Variant(
            lines, without(arguments, gone), [one[:-1] for one in gone if one.startswith(VARIABLES)], moves(gone)
        )

    return variant


def drop_in(arguments: Sequence[str], left_out: Collection[str], online: str) -> str | None:
    """Return the lines that have a unit do without something; None where nothing is left out."""
    if not left_out:
        return None
    words = without(arguments, left_out)
    lines = ["ExecStart=", f"ExecStart={format_command_line(words[0], words[1:])}"]
    for settings in UNIT.values():
        for name, instead in settings.items():
            lines += [line.format(online=online) for line in instead if name in left_out]
    names = [word[:-1] for word in left_out if word.startswith(VARIABLES)]
    lines += [f"UnsetEnvironment={' '.join(names)}"] if names else []
    return service_lines(lines)


def moves(left_out: Iterable[str]) -> bool:
    """Return whether the memory of an instance may lie elsewhere than planned without these."""
    anywhere = {"--numa", *(one for settings in UNIT.values() for one in settings)}
    return any(one in anywhere for one in left_out)


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each flag with what it is given. A number may begin with a minus sign."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit() and option:
            yield option
            option = []
        option.append(word)
    if option:
        yield option


def _is_one(flag: str, begins: Sequence[str]) -> bool:
    return any(flag == one or (one not in WHOLE and flag.startswith(one)) for one in begins)
