# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on the RHEL family: grubby, which changes every boot entry and the parameters of later kernels.

Written after recorded output of grubby on RHEL 8 and 9 and its manual page; not yet run on such a host.
"""

from __future__ import annotations

from ..._errors import BadRequest, NotApplied
from ..._io import command as host_command
from ..._io import disk_flush
from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The paths that grubby writes: the entries of kernels, the configuration, and the variables of GRUB.
WRITES = ("/boot/loader/entries", "/boot/grub2/grub.cfg", "/boot/grub2/grubenv")


class Grubby:
    """The parameters of all boot entries, read and changed by grubby."""

    name = "grubby"
    remake_hint = "see what 'grubby --info=ALL' shows"
    choice_remarks: Sequence[str] = ()

    def __init__(
        self,
        run: Callable[[Sequence[str]], str] = host_command.run_command,
        flush: Callable[[Sequence[str]], str | None] = disk_flush.flush_to_disk,
    ) -> None:
        self.run = run
        self.flush = flush

    def read_configured_settings(self) -> dict[str, str]:
        """Return the settings of the entry that boots next."""
        entries = parse_grubby_info(self.run(["grubby", "--info=DEFAULT"]))
        return cmdline.parameters_to_settings(entries[0]) if entries else {}

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return the parameters of each entry, including those for rescue, because grubby changes all entries."""
        return parse_grubby_info(self.run(["grubby", "--info=ALL"]))

    def unfinished_reason(self) -> str:
        """Return an empty text, because grubby needs no drop-in."""
        return ""

    def settings_to_restore(self, originals: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return the originals, because nothing shows which parameters other programs have set since."""
        return originals

    def apply_settings(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Make the wanted settings in all entries (None removes a parameter); return remarks for the user."""
        before = [cmdline.parameters_to_settings(words) for words in self.list_parameters_by_entry()]
        for command in build_grubby_commands(wanted, self.read_configured_settings()):
            self.run(command)
        lines = [cmdline.parameters_to_settings(words) for words in self.list_parameters_by_entry()]
        _require_others_kept(before, lines, wanted)
        for name, text in wanted.items():
            if not lines or any(line.get(cmdline.canonical_parameter_name(name)) != text for line in lines):
                raise NotApplied(
                    f"cmdline:{name}: grubby succeeded, but not every boot entry has it. See what 'grubby "
                    "--info=ALL' shows."
                )
        reason = self.flush(WRITES)
        return [disk_flush.unflushed_message(WRITES[0], reason)] if reason else []


def _require_others_kept(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]], wanted: Mapping[str, str | None]
) -> None:
    """Raise NotApplied if grubby changed more: some versions look for what to remove in the middle of words."""
    ours = {cmdline.canonical_parameter_name(name) for name in wanted}
    for old, new in zip(before, after):
        lost = sorted(name for name, text in old.items() if name not in ours and new.get(name) != text)
        if lost:
            rows = ", ".join(word for name in lost for word in cmdline.setting_to_parameters(name, old[name]))
            raise NotApplied(
                "grubby changed other parameters, too. Give them back by hand, in all entries that 'grubby --info=ALL' "
                f"shows: {rows}."
            )


def build_grubby_commands(wanted: Mapping[str, str | None], present: Mapping[str, str]) -> list[list[str]]:
    """Return the calls of grubby: one to remove the old parameters of these names, and one to add the new ones.

    One call would not do, because grubby replaces a parameter that exists: the second hugepagesz would replace the
    first.
    """
    old = [
        member
        for name in wanted
        for member in cmdline.parameter_names_of_setting(cmdline.canonical_parameter_name(name))
    ]
    new = [
        word for name, text in wanted.items() if text is not None for word in cmdline.setting_to_parameters(name, text)
    ]
    if any('"' in word for word in new):
        raise BadRequest("grubby cannot set a value with spaces, so this host cannot have it.")
    calls = []
    if any(cmdline.canonical_parameter_name(name) in present for name in wanted):
        spellings = dict.fromkeys([*old, *(name for name in wanted if name not in cmdline.FAMILIES)])
        calls.append(["grubby", "--update-kernel=ALL", f"--remove-args={' '.join(spellings)}"])
    if new:
        calls.append(["grubby", "--update-kernel=ALL", f"--args={' '.join(new)}"])
    return calls


def parse_grubby_info(text: str) -> list[list[str]]:
    """Return the kernel parameters of each entry in the output of ``grubby --info``."""
    lines = []
    for row in text.splitlines():
        if row.startswith("args="):
            value = row[len("args=") :].strip()
            lines.append(cmdline.split_kernel_command_line(value[1:-1] if value[:1] == '"' == value[-1:] else value))
    return lines
