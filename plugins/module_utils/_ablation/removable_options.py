# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance that an ablation can remove; each option is a list of words.

A word is a flag of the server, an environment variable with an equals sign (``OMP_PROC_BIND=``), or a setting of the
unit with an equals sign (``NUMAPolicy=``). Options for the model, the clients or limits are never removed.

Source: tools/server/README.md of llama.cpp, systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

from .._io import textfile
from .._io.paths import UNIT_FOLDER
from .._knobs.catalogue import RESTART
from .._notation.unit_syntax import format_unit_command_line
from .arm_switch import InstanceVariant, list_environment_variables, render_service_drop_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host

#: Name of an option -> the flags of the option, or their beginnings.
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
    "repacking at the start": ("--run-time-repack",),
    "NUMA mode": ("--numa",),
}
#: Flags in FLAGS that match only themselves: longer flags with the same beginning belong to other options.
EXACT_FLAGS = ("--threads", "--threads-batch", "--repack")
#: The name of the option for environment variables of OpenMP, and the beginnings of their names.
OPENMP, VARIABLES = "OpenMP environment", ("OMP_", "GOMP_", "KMP_")
#: Name of an option -> settings of the unit -> the lines of a drop-in that reset the setting.
UNIT_SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "memory policy": {"NUMAPolicy=": ("NUMAPolicy=default", "NUMAMask=")},
    "CPU set": {"AllowedCPUs=": ("AllowedCPUs={online}",), "CPUAffinity=": ("CPUAffinity=",)},
}
SPECULATION = "speculation"


def list_removable_options(target: MeasuredInstance, host: Host) -> list[dict[str, Any]]:
    """Return the options that a running instance has, in the format of build_ablation_arms."""
    options: dict[str, list[str]] = {}
    for words in _group_flags_with_values(target.arguments[1:]):
        name = next((name for name, begins in FLAGS.items() if _flag_has_any_beginning(words[0], begins)), None)
        if name is not None:
            options.setdefault(name, []).append(words[0])
    variables = sorted(
        name for name in list_environment_variables(host.fs, target.process) if name.startswith(VARIABLES)
    )
    if variables:
        options[OPENMP] = [f"{name}=" for name in variables]
    unit_file = textfile.path_in_tree(host.fs.root, f"{UNIT_FOLDER}/{target.units[0]}")
    lines = (textfile.read_text(unit_file) or "").splitlines()
    for name, settings in UNIT_SETTINGS.items():
        present = [word for word in settings if any(line.startswith(word) and line != word for line in lines)]
        if present:
            options[name] = present
    return [{"name": name, "class": RESTART, "settings": {}, "arguments": words} for name, words in options.items()]


def remove_flags(arguments: Sequence[str], flags: Collection[str]) -> list[str]:
    """Return the arguments of a server, the program first, without these flags and their values."""
    return [
        arguments[0],
        *(word for words in _group_flags_with_values(arguments[1:]) if words[0] not in flags for word in words),
    ]


def make_variant_builder(target: MeasuredInstance, host: Host) -> Callable[[Mapping[str, Any]], InstanceVariant]:
    """Return a function that builds the variant of an instance for an arm."""
    arguments, fs = target.arguments, host.fs

    def build_variant(arm: Mapping[str, Any]) -> InstanceVariant:
        removed = arm["arguments"]
        return InstanceVariant(
            render_drop_in(arguments, removed, fs.read("/sys/devices/system/cpu/online")),
            remove_flags(arguments, removed),
            _openmp_variables_of_words(removed),
            may_move_memory_to_other_nodes(removed),
        )

    return build_variant


def render_drop_in(arguments: Sequence[str], removed: Collection[str], online: str) -> str | None:
    """Return the text of a drop-in that removes words from a unit, None for no word; ``online`` are the online CPUs."""
    if not removed:
        return None
    words = remove_flags(arguments, removed)
    lines = ["ExecStart=", f"ExecStart={format_unit_command_line(words[0], words[1:])}"]
    for settings in UNIT_SETTINGS.values():
        for name, reset_lines in settings.items():
            lines += [line.format(online=online) for line in reset_lines if name in removed]
    variables = _openmp_variables_of_words(removed)
    lines += [f"UnsetEnvironment={' '.join(variables)}"] if variables else []
    return render_service_drop_in(lines)


def may_move_memory_to_other_nodes(removed: Iterable[str]) -> bool:
    """Return whether the memory of an instance may be on other nodes than planned after the removal of words."""
    placing_words = {"--numa", *(word for settings in UNIT_SETTINGS.values() for word in settings)}
    return any(word in placing_words for word in removed)


def _openmp_variables_of_words(words: Iterable[str]) -> list[str]:
    return [word[:-1] for word in words if word.startswith(VARIABLES)]


def _group_flags_with_values(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each flag with its values as a list; a negative number is a value and no flag."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit() and option:
            yield option
            option = []
        option.append(word)
    if option:
        yield option


def _flag_has_any_beginning(flag: str, begins: Sequence[str]) -> bool:
    return any(flag == begin or (begin not in EXACT_FLAGS and flag.startswith(begin)) for begin in begins)
