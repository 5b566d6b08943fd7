# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on Debian and Ubuntu: a drop-in of this collection, and update-grub.

grub-mkconfig reads /etc/default/grub and then /etc/default/grub.d/*.cfg as shell, in the order of their names. The
drop-in comes late. It removes the parameters that it owns from those of earlier files, so that each is there exactly
once, and adds them with its own values. Without the drop-in, the parameters are those of the other files.

An ordinary entry gets GRUB_CMDLINE_LINUX and then GRUB_CMDLINE_LINUX_DEFAULT, the entry for recovery only the first.
The drop-in adds its parameters to the second, so that the entry for recovery boots without them. Source:
util/grub-mkconfig.in and util/grub.d/10_linux.in of GRUB, and Debian's changes to the latter, which sets
GRUB_CMDLINE_LINUX_RECOVERY itself, so that no parameter can be given back to that entry alone.
"""

from __future__ import annotations

from ..._errors import NotApplied, TuningError
from ..._io import command, disk_flush, textfile
from ..._notation import cmdline
from .drop_in import DROP_IN, FOLDER, list_foreign_lines, parse_owned_settings, render_drop_in_if_needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAIN = "/etc/default/grub"
RESULT = "/boot/grub/grub.cfg"
UPDATE = "/usr/sbin/update-grub"
#: Sources the files of grub-mkconfig in its order, except one, and prints two variables; other output is ignored.
COLLECT = """\
set -e
root=$1
leave_out=$2
{
  if [ -f "$root/etc/default/grub" ]; then . "$root/etc/default/grub"; fi
  for file in "$root"/etc/default/grub.d/*.cfg; do
    if [ -e "$file" ] && [ "$file" != "$leave_out" ]; then . "$file"; fi
  done
} >&2
printf '%s\\0%s' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"
"""


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
        return _parse_settings(*self._evaluate_config_files(with_drop_in=True))

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return the parameters of each kernel entry of grub.cfg, without the entries for recovery."""
        return parse_parameters_of_entries(self._read_grub_cfg())

    def unfinished_reason(self) -> str:
        """Return why the drop-in must be written again, as after a change by hand; else an empty text."""
        text = textfile.read_text(self._drop_in_path)
        if text is None or text == render_drop_in_if_needed(parse_owned_settings(text)):
            return ""
        return f"{DROP_IN} was changed by hand, or is of another version; the next run writes it anew"

    def settings_to_restore(self, originals: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the settings that an undo restores, by name: the present ones of the other files, not the originals.

        It includes settings that the drop-in owns and the ledger does not know.
        """
        others = _parse_settings(*self._evaluate_config_files(with_drop_in=False))
        known = {cmdline.canonical_parameter_name(name) for name in originals}
        names = [
            name
            for name in parse_owned_settings(textfile.read_text(self._drop_in_path) or "")
            if cmdline.canonical_parameter_name(name) not in known
        ]
        return {name: others.get(cmdline.canonical_parameter_name(name)) for name in [*originals, *names]}

    def apply_settings(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Make the wanted settings (None removes a parameter), all or none of them; return remarks for the user."""
        before = textfile.read_text(self._drop_in_path)
        owned = {
            cmdline.canonical_parameter_name(name): (name, text)
            for name, text in parse_owned_settings(before or "").items()
        }
        owned.update({cmdline.canonical_parameter_name(name): (name, text) for name, text in wanted.items()})
        # Settings that equal those of other files are left out, so that an undo leaves no drop-in.
        in_both, ordinary = self._evaluate_config_files(with_drop_in=False)
        others = _parse_settings(in_both, ordinary)
        added = {name: text for key, (name, text) in owned.items() if others.get(key) != text}
        new_names = [name for name in wanted if added.get(name) is not None]
        remarks = [
            *self._overwritten_drop_in_messages(before),
            *self._overridden_setting_messages(new_names, others, _parse_settings(in_both)),
        ]
        unfinished = textfile.path_in_tree(self.root, f"{RESULT}.new")
        clean = textfile.read_text(unfinished) is None
        self._write_drop_in(render_drop_in_if_needed(added))
        try:
            self.run([UPDATE])
            self._require_settings_in_entries(wanted)
        except TuningError:
            # The rollback of the run repairs grub.cfg. Before that, no other update-grub may use these settings.
            self._write_drop_in(before)
            if clean:
                textfile.remove_file(unfinished)  # grub-mkconfig leaves it behind when one of its scripts fails.
            raise
        return [*remarks, *self._recovery_entry_messages(added), *self._unflushed_messages()]

    def _overwritten_drop_in_messages(self, old_drop_in: str | None) -> list[str]:
        """Return a remark on foreign lines of the drop-in, which are lost, and one on a missing grub.cfg."""
        lines = list_foreign_lines(old_drop_in) if old_drop_in is not None else []
        messages = []
        if lines:
            messages.append(
                f"{DROP_IN} held lines that are not ours, and are gone now: {lines}. Put yours into another file of "
                f"{FOLDER}."
            )
        if not self._read_grub_cfg():
            messages.append(f"There was no {RESULT}, so update-grub made it from nothing.")
        return messages

    def _overridden_setting_messages(
        self, names: Sequence[str], elsewhere: Mapping[str, str], in_all_entries: Mapping[str, str]
    ) -> list[str]:
        """Return a remark on each parameter that another file sets too; the recovery entry may lose that setting."""
        keys = {name: cmdline.canonical_parameter_name(name) for name in names}
        return [
            f"{name} is also set by {self._files_mentioning(name)}, to '{elsewhere[key]}'. {DROP_IN} takes that out "
            f"for as long as it is there{', also of the entry for recovery' if key in in_all_entries else ''}."
            for name, key in keys.items()
            if key in elsewhere
        ]

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
        configured = self.read_configured_settings()
        lines = [_parse_settings(" ".join(words)) for words in self.list_parameters_by_entry()]
        if not lines:
            raise NotApplied(
                f"update-grub succeeded, but {RESULT} has no entry of a Linux kernel. See that /boot is mounted and "
                "holds a kernel, and that /etc/grub.d/10_linux may be executed."
            )
        for name, text in wanted.items():
            key = cmdline.canonical_parameter_name(name)
            if configured.get(key) != text:
                raise NotApplied(
                    f"cmdline:{name}: wanted {_quote_value(text)}, and {self._files_mentioning(name, after=DROP_IN)}, "
                    f"which is read after {DROP_IN}, makes it {_quote_value(configured.get(key))}. Take it out there."
                )
            if any(line.get(key) != text for line in lines):
                present = _quote_value(next(line.get(key) for line in lines if line.get(key) != text))
                raise NotApplied(
                    f"cmdline:{name}: update-grub succeeded, but {RESULT} does not have it: wanted "
                    f"{_quote_value(text)}, found {present}. Look for a script in /etc/grub.d that does not use "
                    "GRUB_CMDLINE_LINUX_DEFAULT."
                )

    def _files_mentioning(self, name: str, after: str = "") -> str:
        """Return the files that contain the name of a parameter, as text for a sentence."""
        import os

        try:
            names = sorted(os.listdir(textfile.path_in_tree(self.root, FOLDER)))
        except OSError:
            names = []
        paths = [MAIN, *(f"{FOLDER}/{file}" for file in names if file.endswith(".cfg"))]
        spellings = {
            form
            for member in cmdline.parameter_names_of_setting(name)
            for form in (member, cmdline.canonical_parameter_name(member))
        }
        matching = [
            path
            for path in paths
            if path != DROP_IN
            and (not after or path > after)
            and any(form in (textfile.read_text(textfile.path_in_tree(self.root, path)) or "") for form in spellings)
        ]
        return " and ".join(matching) or "another file"

    def _evaluate_config_files(self, with_drop_in: bool) -> tuple[str, str]:
        """Run the configuration files; return the parameters for all entries, and those for ordinary entries only."""
        root = "" if self.root == "/" else self.root
        printed = self.run(["sh", "-c", COLLECT, "sh", root, "" if with_drop_in else root + DROP_IN])
        in_both, dummy, ordinary = printed.partition("\0")
        return in_both, ordinary

    def _read_grub_cfg(self) -> str:
        return textfile.read_text(textfile.path_in_tree(self.root, RESULT)) or ""

    @property
    def _drop_in_path(self) -> str:
        return textfile.path_in_tree(self.root, DROP_IN)

    def _write_drop_in(self, text: str | None) -> None:
        if text is None:
            textfile.remove_file(self._drop_in_path)
        else:
            textfile.write_file(self._drop_in_path, text)


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


def _quote_value(text: str | None) -> str:
    return "nothing" if text is None else f"'{text}'"
