# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration files of grub-mkconfig, run by a shell in the order and the way of grub-mkconfig.

Source: util/grub-mkconfig.in of GRUB with Debian's changes, which runs /etc/default/grub and then
/etc/default/grub.d/*.cfg with 'set -e': the first command that fails ends it, and so does a file whose last command
fails.
"""

from __future__ import annotations

from ..._errors import TuningError
from ..._io import command, textfile
from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAIN = "/etc/default/grub"
#: Prints the name of each file before it is run, and two variables after it; other output is ignored.
RUN_FILES = """\
set -e
root=$1
left_out=$2
exec 3>&1 >&2
for file in "$root/etc/default/grub" "$root"/etc/default/grub.d/*.cfg; do
  case $left_out in *"|$file|"*) continue ;; esac
  if [ -e "$file" ]; then
    printf '%s\\0' "$file" >&3
    . "$file"
    printf '%s\\0%s\\0' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT" >&3
  fi
done
"""
#: Runs some files, and then the first lines of another; prints "end" if none of these lines ends the shell.
RUN_FIRST_LINES = """\
set -e
exec 3>&1 >&2
lines=$1
last=$2
shift 2
for file in "$@"; do . "$file"; done
eval "$(sed "${lines}q" "$last")
:"
printf end >&3
"""


class ConfigFile:
    """A file that was run, and the parameters after it: those of all entries, and those of ordinary entries only."""

    __slots__ = ("in_all_entries", "in_ordinary_entries", "path")

    def __init__(self, path: str, in_all_entries: str, in_ordinary_entries: str) -> None:
        self.path = path
        self.in_all_entries = in_all_entries
        self.in_ordinary_entries = in_ordinary_entries

    def settings(self) -> dict[str, str]:
        """Return the settings that ordinary entries have after this file."""
        words = cmdline.split_kernel_command_line(f"{self.in_all_entries} {self.in_ordinary_entries}")
        return cmdline.parameters_to_settings(words)


def run_config_files(root: str, left_out: Sequence[str] = ()) -> list[ConfigFile]:
    """Run all configuration files but those in ``left_out``; return them in the order in which they were run.

    Raises TuningError with the file and the line that ends the shell, if there is one.
    """
    top = "" if root == "/" else root
    names = "".join(f"|{top}{path}" for path in left_out) + "|"
    done = command.try_command(["sh", "-c", RUN_FILES, "sh", top, names])
    fields = done.out.split("\0")[:-1]
    rows = [fields[at : at + 3] for at in range(0, len(fields), 3)]
    paths = [row[0][len(top) :] for row in rows]
    if done.code or (rows and len(rows[-1]) < 3):
        if not rows:
            raise TuningError(f"No shell could run {MAIN}: {done.err.strip()}. Nothing was changed.")
        raise TuningError(_failing_line_message(top, paths, done))
    return [ConfigFile(path, *row[1:]) for path, row in zip(paths, rows)]


def list_files_that_set(name: str, files: Sequence[ConfigFile], after: str = "") -> list[str]:
    """Return the files of a run that changed a setting; with ``after`` only those that were run after this file."""
    paths = []
    before = None
    for file in files:
        value = file.settings().get(name)
        if value != before:
            paths.append(file.path)
        before = value
        if file.path == after:
            paths = []
    return paths


def _failing_line_message(top: str, paths: Sequence[str], done: command.CommandResult) -> str:
    """Return sentences on the line of the last of these files that ended the shell, and on the way out."""
    path = paths[-1]
    rows = (textfile.read_text(top + path) or "").splitlines() or [""]
    number = _count_lines_that_run(top, paths, len(rows)) + 1
    is_last_command = number > len(rows)
    if is_last_command:
        commands = [at for at, row in enumerate(rows, 1) if row.strip() and not row.strip().startswith("#")]
        number = max(commands, default=1)
    row = rows[number - 1].strip()
    if "+=" in row:
        hint = 'The shell of update-grub does not know +=. Write NAME="$NAME more" in place of NAME+=" more".'
    elif is_last_command:
        hint = (
            "The last command of a file must succeed, and a test that is not true fails. Write it as 'if ...; then "
            "...; fi', or put the line 'true' below it."
        )
    else:
        hint = "Mend this line."
    words = " ".join(done.err.split())
    said = f" The shell says: {words}." if words and not is_last_command else ""
    return (
        f"Line {number} of {path} ends update-grub, which runs this file as a shell program that stops at the first "
        f"failure: '{row}'.{said} {hint} Nothing was changed, and no update-grub works until then."
    )


def _count_lines_that_run(top: str, paths: Sequence[str], count: int) -> int:
    """Return how many first lines of the last file a shell runs to their end, at most ``count``."""
    files = [top + path for path in paths]
    for number in range(count, 0, -1):
        done = command.try_command(["sh", "-c", RUN_FIRST_LINES, "sh", str(number), files[-1], *files[:-1]])
        if done.out == "end":
            return number
    return 0
