# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters that wait for a reboot, and the check whether a reboot put them in force."""

from __future__ import annotations

from .._drift.judge import waits_for_reboot
from .._io.paths import REBOOT_PENDING_FILE
from .._knobs.boot.knob import PREFIX as CMDLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._drift.verdict import Verdict
    from .._io.kernelfs import KernelFS


def waits_for_reboot_messages(fs: KernelFS, verdicts: Sequence[Verdict]) -> list[str]:
    """Return a sentence, without its full stop, for each boot parameter that waits for a reboot."""
    messages = [
        f"{verdict.address} is {_format_parameter_value(verdict.found)} and should be "
        f"{_format_parameter_value(verdict.wanted)}, which waits for a reboot"
        for verdict in verdicts
        if waits_for_reboot(verdict)
    ]
    restored = parameters_restored_at_next_boot(fs, verdicts)
    return [*messages, *(f"{CMDLINE}{name} was put back, which waits for a reboot" for name in restored)]


def parameters_restored_at_next_boot(fs: KernelFS, verdicts: Sequence[Verdict]) -> list[str]:
    """Return the names of boot parameters that an undo removed and that the running kernel has until the next boot."""
    stored = {verdict.address for verdict in verdicts}
    return [name for name in (fs.read_if_present(REBOOT_PENDING_FILE) or "").split() if CMDLINE + name not in stored]


def read_boot_id_and_parameters(fs: KernelFS, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the id of the running boot, the words of its command line, and the restored parameters."""
    return {
        "id": fs.read("/proc/sys/kernel/random/boot_id"),
        "parameters": fs.read("/proc/cmdline").split(),
        "restored": parameters_restored_at_next_boot(fs, verdicts),
    }


def ineffective_reboot_reasons(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return why a reboot had no effect, from read_boot_id_and_parameters before and after; empty where it had one.

    A restored parameter that is in neither command line is not judged, as the kernel may have another spelling for it.
    """
    if before.get("id") == after["id"]:
        return ["It has not rebooted: its boot id is still that from before."]
    unchanged = []
    for name in list(before.get("restored") or ()):
        words = _words_that_set_parameter(name, list(before.get("parameters") or ()))
        if words and words == _words_that_set_parameter(name, after["parameters"]):
            unchanged.append(name)
    if not unchanged:
        return []
    return [
        f"The kernel was started with {', '.join(unchanged)} as before, which had been put back: the boot loader has "
        "started another entry, or an older configuration."
    ]


def _words_that_set_parameter(name: str, command_line_words: Sequence[str]) -> list[str]:
    """Return the words of a command line that set a parameter; for the kernel, - and _ in a name are equal."""
    name = name.replace("-", "_")
    return [word for word in command_line_words if word.partition("=")[0].replace("-", "_") == name]


def _format_parameter_value(value: str | None) -> str:
    return "nothing" if value is None else value or "a flag without a value"
