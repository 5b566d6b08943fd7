# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fingerprint of a run on its page: host, engine and model, and every setting of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun

#: Field of the fingerprint -> its label.
LABELS = {
    "host": "Host",
    "sku": "Processor",
    "dimms": "Memory",
    "nps": "Nodes per socket",
    "microcode": "Microcode",
    "bios": "BIOS",
    "kernel": "Kernel",
    "cmdline": "Boot parameters",
    "topology": "Topology",
    "uptime_s": "Uptime, s",
    "engine": "Engine",
    "engine_build": "Its build",
    "engine_sha256": "SHA-256 of its program",
    "model": "Model",
    "quantization": "Quantization",
    "model_sha256": "SHA-256 of the model",
    "arguments": "Arguments",
    "prompts_sha256": "SHA-256 of the prompts",
}


def fingerprint_parts(run: ShownRun) -> Iterator[Html]:
    """Yield the known facts about the host, the engine and the model of a run, folded up."""
    known = run.data["fingerprint"]
    pairs = []
    for name, label in LABELS.items():
        value = known.get(name)
        if value not in (None, []):
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            pairs += [element("dt", label), element("dd", shown)]
    if pairs:
        yield element("details", element("summary", "Host, engine and model"), element("dl", *pairs, class_="known"))
    settings = sorted((str(address), value) for address, value in known["settings"].items())
    if settings:
        rows = [
            part
            for address, value in settings
            for part in (element("dt", element("code", address)), element("dd", _setting_value(value)))
        ]
        summary = element("summary", f"{len(settings)} settings of the host")
        yield element("details", summary, element("dl", *rows, class_="known"))


def _setting_value(value: object) -> object:
    return "not there" if value is None else element("code", value)
