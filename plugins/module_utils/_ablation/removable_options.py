# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance that an ablation can remove, each as a list of words.

The words are flags of the server, environment variables followed by an equals sign, and settings of the unit in the
same form. Options that decide on the model, on the clients or on limits are never removed.

Source: tools/server/README.md of llama.cpp, systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

from .._io import textfile
from .._io.paths import UNIT_FOLDER
from .._knobs.catalogue import RESTART
from .._notation.unit_syntax import format_command_line
from .arm_switch import InstanceVariant, render_service_drop_in, variable_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host

#: Name of an option -> the beginnings of its flags.
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
#: Flags that match exactly, and are not the beginning of other flags.
EXACT_FLAGS = ("--threads", "--threads-batch", "--repack")
OPENMP, VARIABLES = "OpenMP environment", ("OMP_", "GOMP_", "KMP_")
#: Name of an option -> settings of the unit, each with the lines of a drop-in that reset it.
UNIT: dict[str, dict[str, tuple[str, ...]]] = {
    "memory policy": {"NUMAPolicy=": ("NUMAPolicy=default", "NUMAMask=")},
    "CPU set": {"AllowedCPUs=": ("AllowedCPUs={online}",), "CPUAffinity=": ("CPUAffinity=",)},
}
SPECULATION = "speculation"


def list_removable_options(target: MeasuredInstance, host: Host) -> list[dict[str, Any]]:
    """Return the options that an instance was given, as knobs for build_ablation_arms."""
    said: dict[str, list[str]] = {}
    for words in _split_options(target.arguments[1:]):
        name = next((name for name, begins in FLAGS.items() if _flag_matches(words[0], begins)), None)
        if name is not None:
            said.setdefault(name, []).append(words[0])
    variables = sorted(name for name in variable_names(host.fs, target.process) if name.startswith(VARIABLES))
    if variables:
        said[OPENMP] = [f"{name}=" for name in variables]
    lines = (
        textfile.read_text(textfile.path_in_tree(host.fs.root, f"{UNIT_FOLDER}/{target.units[0]}")) or ""
    ).splitlines()
    for name, settings in UNIT.items():
        there = [setting for setting in settings if any(line.startswith(setting) and line != setting for line in lines)]
        if there:
            said[name] = there
    return [{"name": name, "class": RESTART, "settings": {}, "arguments": words} for name, words in said.items()]


def remove_flags(arguments: Sequence[str], left_out: Collection[str]) -> list[str]:
    """Return the arguments of a server, the program first, without some flags and their values."""
    kept = [word for words in _split_options(arguments[1:]) if words[0] not in left_out for word in words]
    return [arguments[0], *kept]


def make_variant_builder(target: MeasuredInstance, host: Host) -> Callable[[Mapping[str, Any]], InstanceVariant]:
    """Return the function that makes the variant of an instance for an arm."""
    arguments, fs = target.arguments, host.fs

    def variant(arm: Mapping[str, Any]) -> InstanceVariant:
        gone = arm["arguments"]
        lines = render_drop_in(arguments, gone, fs.read("/sys/devices/system/cpu/online"))
        return InstanceVariant(
            lines,
            remove_flags(arguments, gone),
            [word[:-1] for word in gone if word.startswith(VARIABLES)],
            may_move_memory(gone),
        )

    return variant


def render_drop_in(arguments: Sequence[str], left_out: Collection[str], online: str) -> str | None:
    """Return the text of the drop-in that removes words from a unit; None where none are removed."""
    if not left_out:
        return None
    words = remove_flags(arguments, left_out)
    lines = ["ExecStart=", f"ExecStart={format_command_line(words[0], words[1:])}"]
    for settings in UNIT.values():
        for name, instead in settings.items():
            lines += [line.format(online=online) for line in instead if name in left_out]
    names = [word[:-1] for word in left_out if word.startswith(VARIABLES)]
    lines += [f"UnsetEnvironment={' '.join(names)}"] if names else []
    return render_service_drop_in(lines)


def may_move_memory(left_out: Iterable[str]) -> bool:
    """Return whether the memory of an instance may be on other nodes than planned without these words."""
    anywhere = {"--numa", *(setting for settings in UNIT.values() for setting in settings)}
    return any(word in anywhere for word in left_out)


def _split_options(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each flag with its values; a negative number is a value."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit() and option:
            yield option
            option = []
        option.append(word)
    if option:
        yield option


def _flag_matches(flag: str, begins: Sequence[str]) -> bool:
    return any(flag == begin or (begin not in EXACT_FLAGS and flag.startswith(begin)) for begin in begins)
