# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of the collection's drop-in for grub-mkconfig: the settings that it owns, and shell that makes them."""

from __future__ import annotations

from ..._errors import TuningError
from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..._io.kernelfs import KernelFS

FOLDER = "/etc/default/grub.d"
#: The name sorts last: files of providers and packages, such as hetzner.cfg, may set the whole command line anew.
DROP_IN = f"{FOLDER}/zzz-sovereign-epyc.cfg"
#: The name of the drop-in in earlier versions. The next change of a host puts its settings into DROP_IN.
EARLIER_DROP_IN = f"{FOLDER}/95-sovereign-epyc.cfg"
#: Both names in the order in which grub-mkconfig reads them.
DROP_INS = (EARLIER_DROP_IN, DROP_IN)
OWNS = "# owns: "
HEAD = """\
# Written by the module kernel_cmdline of sovereign.epyc, which replaces it whole: do not change it here.
# Takes the parameters named below out of what other files set, so that each is there exactly once, and adds its own,
# but not to the entries for recovery. Without this file and after update-grub, everything is as the other files say.
"""


def has_drop_in(fs: KernelFS) -> bool:
    """Return whether a host has a drop-in of this collection, under its present or its earlier name."""
    return any(fs.read_status(path) is not None for path in DROP_INS)


def parse_owned_settings(text: str, path: str = DROP_IN) -> dict[str, str | None]:
    """Return the settings that a drop-in owns, by name; empty for a text without them."""
    row = next((row for row in text.splitlines() if row.startswith(OWNS)), None)
    if row is None:
        return {}
    # Imported here because json imports re, and an undo without changes needs neither.
    import json

    try:
        owned = json.loads(row[len(OWNS) :])
    except ValueError:
        owned = None
    if not isinstance(owned, dict) or not all(text is None or isinstance(text, str) for text in owned.values()):
        raise TuningError(
            f"{path} was changed by hand and cannot be read any more. Remove it, run update-grub and try again."
        )
    return owned


def render_drop_in(owned: Mapping[str, str | None]) -> str:
    """Return the text of the drop-in that owns these settings; the value None removes a parameter."""
    import json

    words = [
        word for name, text in owned.items() if text is not None for word in cmdline.setting_to_parameters(name, text)
    ]
    names = "|".join(
        parameter_spelling_pattern(member)
        for name in owned
        for member in cmdline.parameter_names_of_setting(cmdline.canonical_parameter_name(name))
    )
    letter = '([^"[:space:]]|"[^"]*")'
    owned_word = f'({names})(={letter}*)?|"({names})(=[^"]*)?"'
    rows = [
        HEAD + OWNS + json.dumps(dict(owned)),
        "sovereign_epyc_others() {",
        "  printf '%s ' \"$1\" | sed -E \\",
        f"    -e ':a' -e 's/^(({letter}*[[:space:]])*)({owned_word})[[:space:]]/\\1/' -e 'ta' -e 's/ $//'",
        "}",
        'GRUB_CMDLINE_LINUX="$(sovereign_epyc_others "$GRUB_CMDLINE_LINUX")"',
        'GRUB_CMDLINE_LINUX_DEFAULT="$(sovereign_epyc_others "$GRUB_CMDLINE_LINUX_DEFAULT")"',
    ]
    if any("'" in word for word in words):
        raise TuningError(f"A parameter with an apostrophe cannot be put into {DROP_IN}. Nothing was changed.")
    if words:
        before = '"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }"'
        rows.append(f"GRUB_CMDLINE_LINUX_DEFAULT={before}'{' '.join(words)}'")
    return "\n".join([*rows, "unset -f sovereign_epyc_others", ""])


def render_drop_in_if_needed(owned: Mapping[str, str | None]) -> str | None:
    """Return the text of the drop-in that owns these settings, None for no settings."""
    return render_drop_in(owned) if owned else None


def list_foreign_lines(text: str) -> list[str]:
    """Return the lines of a drop-in, without comments, that this collection would not write."""
    known = render_drop_in(parse_owned_settings(text)).splitlines()
    return [row for row in text.splitlines() if row not in known and row.strip() and not row.startswith("#")]


def parameter_spelling_pattern(name: str) -> str:
    """Return a regular expression for every spelling of a parameter's name."""
    return "".join("[-_]" if c in "-_" else "[.]" if c == "." else c for c in name)
