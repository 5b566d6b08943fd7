# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on Debian and Ubuntu: a drop-in of ours beside the other files, and update-grub.

grub-mkconfig reads /etc/default/grub and then /etc/default/grub.d/*.cfg as shell, in order of name. Ours comes late. It
removes the parameters that it owns from what was set before it, so that each is there exactly once, and adds its own.
Nothing else is changed, and without the drop-in everything is as it was.
Source: util/grub-mkconfig.in and util/grub.d/10_linux.in of GRUB.
"""

from __future__ import annotations

from ..._errors import NotApplied, TuningError
from ..._io import command, textfile
from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAIN = "/etc/default/grub"
FOLDER = "/etc/default/grub.d"
DROP_IN = f"{FOLDER}/95-sovereign-epyc.cfg"
RESULT = "/boot/grub/grub.cfg"
UPDATE = "/usr/sbin/update-grub"
OWNS = "# owns: "
HEAD = """\
# Written by the module kernel_cmdline of sovereign.epyc, which replaces it whole: do not change it here.
# Takes the parameters named below out of what other files set, so that each is there exactly once, and adds its own.
# Without this file and after update-grub, everything is as it was.
"""
#: Sources the files that grub-mkconfig sources, in its order, except one; what the files print is ignored.
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
printf '%s %s' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"
"""


class Grub:
    """The parameters that grub-mkconfig will write, those that it has written, and our drop-in."""

    name = "GRUB with update-grub"
    quotes = True

    def __init__(self, root: str = "/", run: Callable[[Sequence[str]], str] = command.run) -> None:
        self.root = root
        self.run = run

    def configured(self) -> dict[str, str]:
        """Return the settings that the present files make."""
        return cmdline.settings(cmdline.split(self._collect(with_ours=True)))

    def entries(self) -> list[list[str]]:
        """Return the words of each kernel entry of grub.cfg, except those for recovery."""
        return linux_lines(textfile.read(textfile.under(self.root, RESULT)) or "")

    def change(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Make settings, by name; all or nothing. Return remarks."""
        before = textfile.read(self._drop_in)
        foreign = cmdline.settings(cmdline.split(self._collect(with_ours=False)))
        owned = {cmdline.canonical(name): (name, text) for name, text in owned_by(before or "").items()}
        owned.update({cmdline.canonical(name): (name, text) for name, text in wanted.items()})
        # What other files set already is left out, so that putting an original back leaves no drop-in.
        ours = {name: text for key, (name, text) in owned.items() if foreign.get(key) != text}
        unfinished = textfile.under(self.root, f"{RESULT}.new")
        clean = textfile.read(unfinished) is None
        self._write(drop_in(ours) if ours else None)
        try:
            self.run([UPDATE])
            self._prove(wanted)
        except TuningError:
            # The undo of the run repairs grub.cfg; until then no later update-grub may use half of this.
            self._write(before)
            if clean:
                textfile.remove(unfinished)  # grub-mkconfig leaves it behind when one of its scripts fails.
            raise
        return [
            f"{name} is also set by {self._who_sets(name)}, to '{foreign[cmdline.canonical(name)]}'. {DROP_IN} takes "
            "that out for as long as it is there."
            for name, text in wanted.items()
            if text is not None and name in ours and cmdline.canonical(name) in foreign
        ]

    def _prove(self, wanted: Mapping[str, str | None]) -> None:
        """Compare the files and grub.cfg with what was written, and name the file that prevents it."""
        configured = self.configured()
        lines = [cmdline.settings(words) for words in self.entries()]
        for name, text in wanted.items():
            key = cmdline.canonical(name)
            if configured.get(key) != text:
                raise NotApplied(
                    f"cmdline:{name}: wanted {_shown(text)}, and {self._who_sets(name, after=DROP_IN)}, which is read "
                    f"after {DROP_IN}, makes it {_shown(configured.get(key))}. Take it out there."
                )
            if not lines or any(line.get(key) != text for line in lines):
                found = _shown(next((line.get(key) for line in lines if line.get(key) != text), None))
                raise NotApplied(
                    f"cmdline:{name}: update-grub succeeded, but {RESULT} does not have it: wanted {_shown(text)}, "
                    f"found {found}. Look for a script in /etc/grub.d that does not use GRUB_CMDLINE_LINUX."
                )

    def _who_sets(self, name: str, after: str = "") -> str:
        """Return the files that name a parameter, for a sentence."""
        import os

        try:
            names = sorted(os.listdir(textfile.under(self.root, FOLDER)))
        except OSError:
            names = []
        paths = [MAIN, *(f"{FOLDER}/{file}" for file in names if file.endswith(".cfg"))]
        spellings = {form for member in cmdline.members(name) for form in (member, cmdline.canonical(member))}
        found = [
            path
            for path in paths
            if path != DROP_IN
            and (not after or path > after)
            and any(form in (textfile.read(textfile.under(self.root, path)) or "") for form in spellings)
        ]
        return " and ".join(found) or "another file"

    def _collect(self, with_ours: bool) -> str:
        root = "" if self.root == "/" else self.root
        return self.run(["sh", "-c", COLLECT, "sh", root, "" if with_ours else root + DROP_IN])

    @property
    def _drop_in(self) -> str:
        return textfile.under(self.root, DROP_IN)

    def _write(self, text: str | None) -> None:
        if text is None:
            textfile.remove(self._drop_in)
        else:
            textfile.replace(self._drop_in, text)


def owned_by(text: str) -> dict[str, str | None]:
    """Return the settings that a drop-in of ours owns."""
    row = next((row for row in text.splitlines() if row.startswith(OWNS)), None)
    if row is None:
        return {}
    # Imported here because it imports re, and an undo without changes needs neither.
    import json

    try:
        owned: dict[str, str | None] = json.loads(row[len(OWNS) :])
    except ValueError:
        raise TuningError(
            f"{DROP_IN} was changed by hand and cannot be read any more. Remove it, run update-grub and try again."
        ) from None
    return owned


def drop_in(owned: Mapping[str, str | None]) -> str:
    """Return the text of the drop-in that owns these settings; None is one to remove."""
    import json

    words = [word for name, text in owned.items() if text is not None for word in cmdline.words_of(name, text)]
    names = "|".join(pattern(member) for name in owned for member in cmdline.members(cmdline.canonical(name)))
    letter = '([^"[:space:]]|"[^"]*")'
    mine = f'({names})(={letter}*)?|"({names})(=[^"]*)?"'
    rows = [
        HEAD + OWNS + json.dumps(dict(owned)),
        "sovereign_epyc_others() {",
        "  printf '%s ' \"$1\" | sed -E \\",
        f"    -e ':a' -e 's/^(({letter}*[[:space:]])*)({mine})[[:space:]]/\\1/' -e 'ta' -e 's/ $//'",
        "}",
        'GRUB_CMDLINE_LINUX="$(sovereign_epyc_others "$GRUB_CMDLINE_LINUX")"',
        'GRUB_CMDLINE_LINUX_DEFAULT="$(sovereign_epyc_others "$GRUB_CMDLINE_LINUX_DEFAULT")"',
    ]
    if any("'" in word for word in words):
        raise TuningError(f"A parameter with an apostrophe cannot be put into {DROP_IN}. Nothing was changed.")
    if words:
        rows.append('GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }"' + f"'{' '.join(words)}'")
    return "\n".join([*rows, "unset -f sovereign_epyc_others", ""])


def pattern(name: str) -> str:
    """Return a regular expression for every spelling of a name."""
    return "".join("[-_]" if c in "-_" else "[.]" if c == "." else c for c in name)


def linux_lines(text: str) -> list[list[str]]:
    """Return the parameters of each Linux entry that 10_linux made, without the kernel's path and without recovery."""
    lines = []
    inside = recovery = False
    for row in text.splitlines():
        words = cmdline.split(row)
        if row.startswith(("### BEGIN ", "### END ")):
            inside = row.startswith("### BEGIN ") and "10_linux" in row
        elif words and words[0] == "menuentry":
            recovery = "-recovery-" in row
        elif inside and not recovery and len(words) > 1 and words[0] in ("linux", "linux16", "linuxefi"):
            lines.append(words[2:])
    return lines


def _shown(text: str | None) -> str:
    return "nothing" if text is None else f"'{text}'"
