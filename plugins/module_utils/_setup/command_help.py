# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manual page and the bash completion of the host tool, made from its usage text and its table of options.

Source: man-pages(7), groff_man(7), and "Programmable Completion" in the manual of bash.
"""

from __future__ import annotations

import re

from .._cli_usage import EXIT_CODES, OPTIONS, USAGE
from .._drift.repair import ROLES
from .._io.paths import HOST_TOOL_FOLDER, UNIT_FOLDER
from .._io.store import HOME
from .._knobs.layers import LAYERS
from .._version import VERSION

MANUAL_PAGE = "/usr/share/man/man8/sovereign-epyc.8"
COMPLETION = "/usr/share/bash-completion/completions/sovereign-epyc"
#: Command -> the names that may follow it, separated by commas.
NAMES = {"restore": LAYERS, "repair": ROLES}
#: The commands that take the name of an instance.
WITH_INSTANCE = ("agent", "bench")
#: Place -> what is there.
PLACES = {
    HOST_TOOL_FOLDER: "the modules of this command",
    HOME: "stored requests, the originals that restore would put back, the history, and documents of benchmarks",
    f"{UNIT_FOLDER}/sovereign-epyc.service": "applies the stored settings at every boot",
    f"{UNIT_FOLDER}/sovereign-epyc-watch.service": "moves new interrupts",
    f"{UNIT_FOLDER}/sovereign-epyc-check.timer": "checks the host at intervals, where this was asked for",
}
COMPLETION_SCRIPT = """\
# Installed by sovereign.epyc: do not change it here.

_sovereign_epyc() {
    local word=${COMP_WORDS[COMP_CWORD]} options="" names="" before="" path name
    if ((COMP_CWORD == 1)); then
        options="COMMANDS --help --version"
    else
        case ${COMP_WORDS[1]} in
CASES
        esac
    fi
    case ${COMP_WORDS[1]} in
    INSTANCES)
        for path in UNITS/llama-*.service; do
            name=${path##*/llama-}
            name=${name%.service}
            [[ -e $path && $name != *-rpc ]] && ((COMP_CWORD > 1)) && options+=" $name"
        done
        ;;
    esac
    if [[ $word == *,* ]]; then
        before=${word%,*},
        options=""
    fi
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$options $names" -- "${word##*,}")
}
complete -o bashdefault -o default -F _sovereign_epyc sovereign-epyc
"""


def read_usage() -> tuple[dict[str, str], list[str]]:
    """Return the description of each command, and the paragraphs after the commands, from the usage text."""
    table, *notes = USAGE.partition("\n\n")[2].split("\n\n")
    entries = re.findall(r"^  (\w+) +(.*(?:\n {4,}.*)*)", table, re.MULTILINE)
    lines = re.sub(r"\n(?!(?:\w+ )?--)", " ", notes[0].strip()).splitlines()
    return {name: " ".join(text.split()) for name, text in entries}, lines


def render_manual_page() -> str:
    """Return the manual page sovereign-epyc(8) in the language of man(7)."""
    commands, notes = read_usage()
    parts = [
        '.\\" Installed by sovereign.epyc: do not change it here.',
        f'.TH SOVEREIGN\\-EPYC 8 "" "sovereign.epyc {VERSION}" "System Administration"',
        ".SH NAME",
        "sovereign\\-epyc \\- check, apply and restore the settings that sovereign.epyc makes on an EPYC server",
        ".SH SYNOPSIS",
        ".B sovereign\\-epyc",
        f"\\fI{_escape_roff('COMMAND')}\\fR [\\fB\\-\\-json\\fR] [\\fB\\-\\-textfile\\fR \\fIFILE\\fR]",
        ".SH DESCRIPTION",
        "Works on a host without Ansible. What changes settings or reads those of the kernel needs root.",
        ".SH COMMANDS",
    ]
    for name, text in commands.items():
        parts += [".TP", f".B {name}", _escape_roff(text)]
    parts.append(".SH OPTIONS")
    for note in notes:
        parts += [".PP", _escape_roff(note)]
    parts.append(".SH EXIT STATUS")
    for code, text in EXIT_CODES.items():
        parts += [".TP", f".B {code}", _escape_roff(text)]
    parts.append(".SH FILES")
    for place, text in PLACES.items():
        parts += [".TP", f".I {_escape_roff(place)}", _escape_roff(text)]
    parts += [".SH SEE ALSO", ".BR systemctl (1),", ".BR journalctl (1)"]
    return "\n".join(parts) + "\n"


def render_completion() -> str:
    """Return the script that completes the words of the command in bash."""
    cases = []
    for command, options in OPTIONS.items():
        words = [f'options="{" ".join(options)}"'] if options else []
        words += [f'names="{" ".join(NAMES[command])}"'] if command in NAMES else []
        if words:
            cases.append(f"        {command}) {' '.join(words)} ;;")
    script = COMPLETION_SCRIPT.replace("COMMANDS", " ".join(OPTIONS)).replace("CASES", "\n".join(cases))
    return script.replace("INSTANCES", " | ".join(WITH_INSTANCE)).replace("UNITS", UNIT_FOLDER)


def _escape_roff(text: str) -> str:
    """Return a text in which no character is an order to roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
