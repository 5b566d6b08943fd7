# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between the fingerprints of runs: host, kernel, BIOS, memory, build, model, options and settings."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Field of the fingerprint -> its name for people, in the order of the table. A digest is shown by its first digits.
LABELS = {
    "host": "host",
    "sku": "processor",
    "dimms": "memory",
    "nps": "nodes per socket",
    "topology": "topology",
    "bios": "BIOS",
    "microcode": "microcode",
    "kernel": "kernel",
    "cmdline": "boot parameters",
    "engine": "engine",
    "engine_build": "build",
    "engine_sha256": "program files",
    "model": "model",
    "quantization": "quantization",
    "model_sha256": "model files",
    "prompts_sha256": "prompts",
}
DIGESTS, DIGITS = ("engine_sha256", "model_sha256", "prompts_sha256"), 12
#: Flags whose values say where an instance listens, and nothing of its speed.
FLAGS_WITHOUT_EFFECT = ("--port", "--host", "--api-key-file", "--alias", "--slot-save-path")
UNKNOWN, ABSENT = "not known", "-"


class Difference:
    """A field in which runs differ: its name for people, and its text in each run."""

    def __init__(self, name: str, values: Sequence[str]) -> None:
        self.name = name
        self.values = list(values)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "values": self.values}


def list_differences(documents: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return the fields in which the validated documents of runs differ; a field that no run knows differs nowhere."""
    fingerprints = [document["fingerprint"] for document in documents]
    rows = [Difference("instance", [document["instance"] for document in documents])]
    for field, name in LABELS.items():
        rows.append(Difference(name, [_format_field(field, fingerprint.get(field)) for fingerprint in fingerprints]))
    rows += _differences_of_flags([fingerprint["arguments"] for fingerprint in fingerprints])
    rows += _differences_of_settings([fingerprint["settings"] for fingerprint in fingerprints])
    return [row for row in rows if len(set(row.values)) > 1]


def _format_field(field: str, value: object) -> str:
    if value is None:
        return UNKNOWN
    return str(value)[:DIGITS] if field in DIGESTS else str(value)


def _differences_of_flags(arguments: Sequence[Sequence[str]]) -> list[Difference]:
    """Return the program, and each flag with its values, in each run."""
    programs = Difference("program", [words[0] if words else UNKNOWN for words in arguments])
    by_flag = [_values_by_flag(words[1:]) for words in arguments]
    flags = dict.fromkeys(flag for values in by_flag for flag in values if flag not in FLAGS_WITHOUT_EFFECT)
    # The paths of models are in the rows of the model and its files already, as far as they matter.
    return [
        programs,
        *(Difference(flag, [values.get(flag, ABSENT) for values in by_flag]) for flag in sorted(flags)),
    ]


def _values_by_flag(words: Sequence[str]) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    flag = ""
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit():
            flag = word
            values.setdefault(flag, [])
        else:
            values.setdefault(flag, []).append(word)
    return {name: " ".join(texts) or "given" for name, texts in values.items()}


def _differences_of_settings(settings: Sequence[Mapping[str, str | None]]) -> list[Difference]:
    addresses = dict.fromkeys(address for values in settings for address in values)
    return [
        Difference(address, [_format_setting(values, address) for values in settings]) for address in sorted(addresses)
    ]


def _format_setting(values: Mapping[str, str | None], address: str) -> str:
    if address not in values:
        return ABSENT
    value = values[address]
    return UNKNOWN if value is None else value or "''"
