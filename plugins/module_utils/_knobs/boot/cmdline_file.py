# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters in /etc/kernel/cmdline, which kernel-install and proxmox-boot-tool copy into boot entries.

The base of the boot loaders that use it: the file is written in one rename, the entries are made again, and what they
hold is read. When that fails, the file gets its former text, and the run says so. The record of first texts marks a
change as unfinished until then, so that the next run ends what a kill or a power cut has left.
"""

from __future__ import annotations

from ..._errors import NotApplied, TuningError
from ..._io import command, disk_flush, textfile
from ..._notation import cmdline
from ..._notation.printable import quote_value
from .command_line_text import read_settings, replace_settings, split_cmdline_row, split_entry_row
from .first_texts import FirstTexts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..._io.kernelfs import KernelFS
    from .command_line_text import RowSplitter

CMDLINE_FILE = "/etc/kernel/cmdline"


class CmdlineFileLoader:
    """A boot loader whose entries are made from /etc/kernel/cmdline."""

    name = ""
    remake_hint = ""
    #: Why this boot loader was chosen on a host with several.
    choice_remarks: Sequence[str] = ()
    #: How the program that makes the entries reads the file.
    split_row: RowSplitter = staticmethod(split_cmdline_row)

    def __init__(
        self,
        fs: KernelFS,
        run: Callable[[Sequence[str]], str] = command.run_command,
        flush: Callable[[Sequence[str]], str | None] = disk_flush.flush_to_disk,
    ) -> None:
        self.fs = fs
        self.run = run
        self.flush = flush

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return the parameters of each entry that starts a kernel of this host."""
        raise TypeError("a boot loader must list the parameters of its entries")

    def fallback_text(self) -> str:
        """Return the command line from which entries are made while the file does not exist."""
        raise TypeError("a boot loader must have a fallback for its file")

    def list_entry_paths(self) -> Sequence[str]:
        """Return the paths of the entries that are text files and changed in place."""
        return ()

    def list_flushed_paths(self) -> Sequence[str]:
        """Return the paths that must be on the disk after a change, because the boot loader reads them."""
        return ()

    def require_remakable(self, wanted: Mapping[str, str | None]) -> None:
        """Raise BadRequest, before any change, if entries with the wanted settings cannot be made."""

    def remake_entries(self, wanted: Mapping[str, str | None]) -> None:
        """Make all entries from the file, other than those that are changed in place, and read the settings in them."""
        raise TypeError("a boot loader must make its entries")

    def read_configured_settings(self) -> dict[str, str]:
        """Return the settings of the file, or of what stands in for it."""
        return read_settings(self._read_cmdline_text(), self.split_row)

    def unfinished_reason(self) -> str:
        """Return why the entries must be made again although they look right; else an empty text."""
        if not FirstTexts(self.fs.root).unfinished:
            return ""
        return f"the last change of {CMDLINE_FILE} did not end; the next run ends it"

    def settings_to_restore(self, originals: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the originals, and those of settings that the record has and the ledger does not know."""
        known = {cmdline.canonical_parameter_name(name) for name in originals}
        recorded = FirstTexts(self.fs.root).settings
        return {**originals, **{name: text for name, text in recorded.items() if name not in known}}

    def apply_settings(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Make the wanted settings (None removes a parameter), all or none of them; return remarks for the user."""
        self.require_remakable(wanted)
        record = FirstTexts(self.fs.root)
        before = self._record_first_texts(record, wanted)
        try:
            for path, text in before.items():
                base = self._read_cmdline_text() if path == CMDLINE_FILE else text or ""
                self._write_if_different(path, replace_settings(base, wanted, self._splitter_of(path), "options "))
            self.remake_entries(wanted)
        except TuningError:
            # The rollback of the run makes the entries again. Before that, no new kernel may get these settings.
            for path, text in before.items():
                self._write_if_different(path, text)
            raise
        return [*self._end_change(record), *self._unflushed_messages()]

    def _record_first_texts(self, record: FirstTexts, wanted: Mapping[str, str | None]) -> dict[str, str | None]:
        """Save the first text of each file to change, and mark the change as unfinished; return the present texts."""
        configured = self.read_configured_settings()
        for name in map(cmdline.canonical_parameter_name, wanted):
            record.settings.setdefault(name, configured.get(name))
        texts = {path: self._read_text(path) for path in (CMDLINE_FILE, *self.list_entry_paths())}
        before = {path: text for path, text in texts.items() if path == CMDLINE_FILE or text is not None}
        for path, text in before.items():
            record.add_file(path, text, self._read_cmdline_text() if text is None else text)
        record.unfinished = True
        record.save()
        return before

    def _end_change(self, record: FirstTexts) -> list[str]:
        """Put the first texts back if no setting of ours is left, and save the record; return remarks."""
        configured = self.read_configured_settings()
        record.settings = {name: text for name, text in record.settings.items() if configured.get(name) != text}
        remarks = [] if record.settings else self._put_first_texts_back(record)
        record.unfinished = False
        record.save()
        return remarks

    def _put_first_texts_back(self, record: FirstTexts) -> list[str]:
        remarks = []
        for path, texts in record.files.items():
            present = self._read_text(path)
            if present is None:
                continue
            if not self._say_the_same(path, present, texts["base"]):
                if path == CMDLINE_FILE:
                    remarks.append(f"{path} keeps what others have changed in it since.")
                continue
            self._write_if_different(path, texts["first"])
            if texts["first"] is None:
                remarks.append(
                    f"{path} is gone, as there was none before. Without it, new kernels get the parameters of the "
                    "running one: reboot before a kernel is installed."
                )
        return remarks

    def _say_the_same(self, path: str, one: str, other: str) -> bool:
        """Return whether two texts of a file have the same settings, and the same rows apart from command lines."""
        split = self._splitter_of(path)

        def rest(text: str) -> list[str]:
            return [row for number, row in enumerate(text.splitlines()) if split(number, row) is None]

        return read_settings(one, split) == read_settings(other, split) and rest(one) == rest(other)

    def _splitter_of(self, path: str) -> RowSplitter:
        return self.split_row if path == CMDLINE_FILE else split_entry_row

    def _read_cmdline_text(self) -> str:
        text = self._read_text(CMDLINE_FILE)
        return self.fallback_text() if text is None else text

    def _read_text(self, path: str) -> str | None:
        return textfile.read_text(self._real_path(path))

    def _write_if_different(self, path: str, text: str | None) -> None:
        if text is None:
            textfile.remove_file(self._real_path(path))
        elif text != self._read_text(path):
            textfile.write_file(self._real_path(path), text)

    def _real_path(self, path: str) -> str:
        return textfile.path_in_tree(self.fs.root, path)

    def _unflushed_messages(self) -> list[str]:
        paths = self.list_flushed_paths()
        reason = self.flush([self._real_path(path) for path in paths]) if paths else None
        return [disk_flush.unflushed_message(paths[0], reason)] if reason else []


def require_settings(wanted: Mapping[str, str | None], words: Sequence[str], place: str, program: str) -> None:
    """Raise NotApplied if a new boot entry lacks a wanted setting."""
    present = cmdline.parameters_to_settings(words)
    for name, text in wanted.items():
        found = present.get(cmdline.canonical_parameter_name(name))
        if found != text:
            raise NotApplied(
                f"cmdline:{name}: {program} succeeded, but {place} does not have it: wanted {quote_value(text)}, "
                f"found {quote_value(found)}."
            )


def without_boot_words(words: Sequence[str]) -> list[str]:
    """Return the parameters of a running kernel without those that a boot loader has added."""
    return [word for word in words if not word.startswith(("BOOT_IMAGE=", "initrd="))]
