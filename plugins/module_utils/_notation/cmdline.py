# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel command lines: parsed into settings and formatted again, by the rules of the kernel.

A parameter is a word such as ``quiet`` or ``isolcpus=1-3``; a value with spaces stands in double quotes, as
``foo="a b"`` or ``"foo=a b"``. Names that differ in - and _ only are the same name.

A setting is the text of all parameters with the same name: the value of a single parameter, "" for a flag without a
value, '""' for an empty value, and all words in their order for a repeated name. The parameters hugepagesz and
hugepages depend on each other and on their order, so they are one setting. Source: lib/cmdline.c (next_arg) and
kernel/params.c (parameq) of the Linux kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HUGEPAGES = "hugepages"
#: Name of a setting -> the names of its parameters, for settings with several.
FAMILIES = {HUGEPAGES: ("default_hugepagesz", "hugepagesz", "hugepages")}
EMPTY_VALUE = '""'
SPACES = " \t\n\v\f\r"


def split_kernel_command_line(line: str) -> list[str]:
    """Split a command line into words; a quote that is never closed reaches to the end, as in the kernel."""
    words: list[str] = []
    word = ""
    quoted = False
    for character in line:
        if character == '"':
            quoted = not quoted
        if character in SPACES and not quoted:
            if word:
                words.append(word)
            word = ""
        else:
            word += character
    return [*words, word] if word else words


def split_kernel_parameter(word: str) -> tuple[str, str | None]:
    """Split a word into name and value, without quotes; the value of a flag is None."""
    if word.startswith('"'):
        word = word[1:-1] if len(word) > 1 and word.endswith('"') else word[1:]
        name, equals, value = word.partition("=")
    else:
        name, equals, value = word.partition("=")
        if value.startswith('"'):
            value = value[1:-1] if len(value) > 1 and value.endswith('"') else value[1:]
    return name, value if equals else None


def format_kernel_parameter(name: str, value: str | None) -> str:
    """Return NAME=VALUE, with quotes where the value has spaces; the name alone for the value None."""
    if value is None:
        return name
    return f'{name}="{value}"' if any(character in SPACES for character in value) else f"{name}={value}"


def canonical_parameter_name(name: str) -> str:
    """Return a parameter's name with underscores for hyphens, which the kernel treats as the same."""
    return name.replace("-", "_")


def setting_name_of_parameter(name: str) -> str:
    """Return the name of the setting that a parameter belongs to, in canonical spelling."""
    spelled = canonical_parameter_name(name)
    return next((setting for setting, names in FAMILIES.items() if spelled in names), spelled)


def parameter_names_of_setting(setting: str) -> tuple[str, ...]:
    """Return the names of the parameters of a setting."""
    return FAMILIES.get(setting, (setting,))


def parameters_to_settings(words: Iterable[str]) -> dict[str, str]:
    """Return the settings of a command line: canonical name -> text."""
    rows: dict[str, list[tuple[str, str | None]]] = {}
    for word in words:
        name, value = split_kernel_parameter(word)
        rows.setdefault(setting_name_of_parameter(name), []).append((canonical_parameter_name(name), value))
    return {setting: _format_setting(setting, row) for setting, row in rows.items()}


def _format_setting(setting: str, row: list[tuple[str, str | None]]) -> str:
    if len(row) > 1 or setting in FAMILIES:
        return " ".join(format_kernel_parameter(name, value) for name, value in row)
    value = row[0][1]
    if value is None:
        return ""
    return format_kernel_parameter("", value)[1:] or EMPTY_VALUE


def setting_to_parameters(name: str, text: str) -> list[str]:
    """Return the words of a command line for a setting; the name keeps its spelling."""
    words = split_kernel_command_line(text)
    if len(words) > 1 or canonical_parameter_name(name) in FAMILIES:
        return words
    if not words:
        return [name]
    return [f"{name}=" if text == EMPTY_VALUE else f"{name}={text}"]
