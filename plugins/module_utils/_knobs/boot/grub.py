# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on Debian and Ubuntu: a drop-in of this collection, and update-grub.

grub-mkconfig reads /etc/default/grub and then /etc/default/grub.d/*.cfg as shell, in the order of their names. The
drop-in is the last of them, because files of providers and packages set whole variables. It removes the parameters that
it owns from those of earlier files, so that each is there exactly once, and adds them with its own values. Without the
drop-in, the parameters are those of the other files.

An ordinary entry gets GRUB_CMDLINE_LINUX and then GRUB_CMDLINE_LINUX_DEFAULT, the entry for recovery only the first.
The drop-in adds its parameters to the second, so that the entry for recovery boots without them. Source:
util/grub-mkconfig.in and util/grub.d/10_linux.in of GRUB, and Debian's changes to the latter, which sets
GRUB_CMDLINE_LINUX_RECOVERY itself, so that no parameter can be given back to that entry alone.
"""

from __future__ import annotations

import os

from ..._errors import NotApplied, TuningError
from ..._io import command, disk_flush, textfile
from ..._notation import cmdline
from ..._notation.printable import quote_value
from .config_files import list_files_that_set, run_config_files
from .drop_in import (
    DROP_IN,
    DROP_INS,
    EARLIER_DROP_IN,
    FOLDER,
    list_foreign_lines,
    parse_owned_settings,
    render_drop_in_if_needed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .config_files import ConfigFile

RESULT = "/boot/grub/grub.cfg"
UPDATE = "/usr/sbin/update-grub"


class Grub:
    """The settings that grub-mkconfig would write, the entries that it has written, and the drop-in."""

    name = "GRUB with update-grub"
    remake_hint = "run update-grub, or have the next run do it"
    #: Why this boot loader was chosen on a host with several.
    choice_remarks: Sequence[str] = ()

    def __init__(
        self,
        root: str = "/",
        run: Callable[[Sequence[str]], str] = command.run_command,
        flush: Callable[[Sequence[str]], str | None] = disk_flush.flush_to_disk,
    ) -> None:
        self.root = root
        self.run = run
        self.flush = flush

    def read_configured_settings(self) -> dict[str, str]:
        """Return the settings that the configuration files make together, the drop-in included."""
        return _settings_after(run_config_files(self.root))

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return the parameters of each kernel entry of grub.cfg, without the entries for recovery."""
        return parse_parameters_of_entries(self._read_grub_cfg())

    def unfinished_reason(self) -> str:
        """Return why the drop-in must be written again, as after a change by hand; else an empty text."""
        texts = self._read_drop_ins()
        owned = {path: parse_owned_settings(text, path) for path, text in texts.items() if text is not None}
        if EARLIER_DROP_IN in owned:
            return f"{EARLIER_DROP_IN} is of an earlier version; the next run moves its settings to {DROP_IN}"
        if DROP_IN not in owned or texts[DROP_IN] == render_drop_in_if_needed(owned[DROP_IN]):
            return ""
        return f"{DROP_IN} was changed by hand, or is of another version; the next run writes it anew"

    def settings_to_restore(self, originals: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the settings that an undo restores, by name: the present ones of the other files, not the originals.

        It includes settings that the drop-in owns and the ledger does not know.
        """
        others = _settings_after(run_config_files(self.root, DROP_INS))
        known = {cmdline.canonical_parameter_name(name) for name in originals}
        names = [
            name
            for name in _parse_owned_settings_of_all(self._read_drop_ins())
            if cmdline.canonical_parameter_name(name) not in known
        ]
        return {name: others.get(cmdline.canonical_parameter_name(name)) for name in [*originals, *names]}

    def apply_settings(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Make the wanted settings (None removes a parameter), all or none of them; return remarks for the user."""
        before = self._read_drop_ins()
        owned = {
            cmdline.canonical_parameter_name(name): (name, text)
            for name, text in _parse_owned_settings_of_all(before).items()
        }
        owned.update({cmdline.canonical_parameter_name(name): (name, text) for name, text in wanted.items()})
        # Settings that equal those of other files are left out, so that an undo leaves no drop-in.
        files = run_config_files(self.root, DROP_INS)
        others = _settings_after(files)
        added = {name: text for key, (name, text) in owned.items() if others.get(key) != text}
        new_names = [name for name in wanted if added.get(name) is not None]
        remarks = [*self._overwritten_drop_in_messages(before), *_overridden_setting_messages(new_names, files)]
        unfinished = textfile.path_in_tree(self.root, f"{RESULT}.new")
        clean = textfile.read_text(unfinished) is None
        self._write_drop_ins({EARLIER_DROP_IN: None, DROP_IN: render_drop_in_if_needed(added)})
        try:
            self.run([UPDATE])
            self._require_settings_in_entries(wanted)
        except TuningError:
            # The rollback of the run repairs grub.cfg. Before that, no other update-grub may use these settings.
            self._write_drop_ins(before)
            if clean:
                textfile.remove_file(unfinished)  # grub-mkconfig leaves it behind when one of its scripts fails.
            raise
        return [*remarks, *self._recovery_entry_messages(added), *self._unflushed_messages()]

    def _overwritten_drop_in_messages(self, old_drop_ins: Mapping[str, str | None]) -> list[str]:
        """Return remarks on foreign lines of the drop-ins, which are lost, and one on a missing grub.cfg."""
        messages = []
        for path, text in old_drop_ins.items():
            lines = list_foreign_lines(text) if text is not None else []
            if lines:
                messages.append(
                    f"{path} held lines that are not ours, and are gone now: {lines}. Put yours into another file of "
                    f"{FOLDER}."
                )
        if not self._read_grub_cfg():
            messages.append(f"There was no {RESULT}, so update-grub made it from nothing.")
        return messages

    def _recovery_entry_messages(self, added: Mapping[str, str | None]) -> list[str]:
        """Return a remark on each parameter that reached the recovery entry too, by a script of another program."""
        lines = [
            _parse_settings(" ".join(words))
            for words in parse_parameters_of_entries(self._read_grub_cfg(), recovery=True)
        ]
        names = [
            name
            for name, text in added.items()
            if text is not None and any(line.get(cmdline.canonical_parameter_name(name)) == text for line in lines)
        ]
        return [
            f"The entry for recovery in {RESULT} has {name} too, so it is no way out of it. Look for a script in "
            "/etc/grub.d that uses GRUB_CMDLINE_LINUX_DEFAULT there."
            for name in names
        ]

    def _unflushed_messages(self) -> list[str]:
        reason = self.flush([textfile.path_in_tree(self.root, RESULT)])
        return [disk_flush.unflushed_message(RESULT, reason)] if reason else []

    def _require_settings_in_entries(self, wanted: Mapping[str, str | None]) -> None:
        """Raise NotApplied, with the file that prevents it, if the files or grub.cfg lack a wanted setting."""
        files = run_config_files(self.root)
        configured = _settings_after(files)
        lines = [_parse_settings(" ".join(words)) for words in self.list_parameters_by_entry()]
        if not lines:
            raise NotApplied(
                f"update-grub succeeded, but {RESULT} has no entry of a Linux kernel. See that /boot is mounted and "
                "holds a kernel, and that /etc/grub.d/10_linux may be executed."
            )
        for name, text in wanted.items():
            key = cmdline.canonical_parameter_name(name)
            if configured.get(key) != text:
                later = " and ".join(list_files_that_set(key, files, after=DROP_IN)) or "a file of the same name"
                raise NotApplied(
                    f"cmdline:{name}: wanted {quote_value(text)}, and {later}, which is read after {DROP_IN}, makes "
                    f"it {quote_value(configured.get(key))}. Take it out there, or give that file a name that comes "
                    f"before {os.path.basename(DROP_IN)}."
                )
            if any(line.get(key) != text for line in lines):
                present = quote_value(next(line.get(key) for line in lines if line.get(key) != text))
                raise NotApplied(
                    f"cmdline:{name}: update-grub succeeded, but {RESULT} does not have it: wanted "
                    f"{quote_value(text)}, found {present}. Look for a script in /etc/grub.d that does not use "
                    "GRUB_CMDLINE_LINUX_DEFAULT."
                )

    def _read_grub_cfg(self) -> str:
        return textfile.read_text(textfile.path_in_tree(self.root, RESULT)) or ""

    def _read_drop_ins(self) -> dict[str, str | None]:
        """Return the text of the drop-in under each of its names, None where there is no such file."""
        return {path: textfile.read_text(textfile.path_in_tree(self.root, path)) for path in DROP_INS}

    def _write_drop_ins(self, texts: Mapping[str, str | None]) -> None:
        for path, text in texts.items():
            if text is None:
                textfile.remove_file(textfile.path_in_tree(self.root, path))
            else:
                textfile.write_file(textfile.path_in_tree(self.root, path), text)


def _settings_after(files: Sequence[ConfigFile]) -> dict[str, str]:
    """Return the settings of ordinary entries after all these files."""
    return files[-1].settings() if files else {}


def _parse_owned_settings_of_all(drop_ins: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the settings that the drop-ins own together, by name."""
    owned: dict[str, str | None] = {}
    for path, text in drop_ins.items():
        owned.update(parse_owned_settings(text or "", path))
    return owned


def _overridden_setting_messages(names: Sequence[str], files: Sequence[ConfigFile]) -> list[str]:
    """Return a remark on each parameter that another file sets too; the recovery entry may lose that setting."""
    keys = {name: cmdline.canonical_parameter_name(name) for name in names}
    elsewhere = _settings_after(files)
    in_all_entries = _parse_settings(files[-1].in_all_entries) if files else {}
    also = ", also of the entry for recovery"
    return [
        f"{name} is also set by {' and '.join(list_files_that_set(key, files))}, to '{elsewhere[key]}'. {DROP_IN} "
        f"takes that out for as long as it is there{also if key in in_all_entries else ''}."
        for name, key in keys.items()
        if key in elsewhere
    ]


def parse_parameters_of_entries(text: str, recovery: bool = False) -> list[list[str]]:
    """Return the kernel parameters of the ordinary entries of 10_linux, or of those for recovery."""
    lines = []
    inside = for_recovery = False
    for row in text.splitlines():
        words = cmdline.split_kernel_command_line(row)
        if row.startswith(("### BEGIN ", "### END ")):
            inside = row.startswith("### BEGIN ") and "10_linux" in row
        elif words and words[0] == "menuentry":
            for_recovery = "-recovery-" in row
        elif inside and for_recovery == recovery and len(words) > 1 and words[0] in ("linux", "linux16", "linuxefi"):
            lines.append(words[2:])
    return lines


def _parse_settings(*lines: str) -> dict[str, str]:
    return cmdline.parameters_to_settings(cmdline.split_kernel_command_line(" ".join(lines)))
