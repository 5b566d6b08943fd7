# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders what a host can serve as text: a table of the models that fit, then why the others do not fit."""

from __future__ import annotations

import textwrap

from ...._models.known_architectures import unknown_name_remark
from ...._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .servable_models import ServableModel, ServingPlace, WantedService

WIDTH = 120
#: A smaller factor of speculation is not shown.
LEAST_GAIN = 1.1
HEAD = ("MODEL", "QUANT", "MEMORY", "TOKENS/S", "LOW-HIGH", "CEILING", "DRAFT", "USERS", "CONTEXT", "SCORE")
ORDER = (
    "Best first: models that give the wanted rate before slower ones; among these by the public score of the benchmark "
    "that most entries have; without a score by sqrt(all x active parameters), a rule of thumb for the dense model of "
    "the same quality."
)
COLUMNS = (
    "TOKENS/S is for one user and a short context, predicted and not measured; CEILING is what the bandwidth alone "
    "would allow. DRAFT is the range of factors by which a draft or MTP layers are predicted to raise it. USERS is "
    "how many get the wanted rate at once, over all copies. MEMORY is of each copy, with one user's longest CONTEXT. "
    "SCORE is public, and its source is in the catalogue."
)


def render_servable_models(
    head: Sequence[str],
    models: Sequence[ServableModel],
    places: Sequence[ServingPlace],
    wanted: WantedService,
    answer: Sequence[str],
) -> str:
    """Return the text for people; ``head`` are its first lines: faults of the memory, and the host."""
    fitting = [model for model in models if model.fits_in_memory]
    paragraphs = [*head, _describe_places(places)]
    lines = [line for paragraph in paragraphs for line in _wrap(paragraph)]
    lines += ["", f"For each user: {wanted.rate:g} tokens per second, {wanted.context} tokens of conversation.", ""]
    lines += list(_render_table(fitting, wanted)) if fitting else ["No model of the catalogue fits on this host."]
    fetched = [model.name for model in fitting if model.entry.get("fetched")]
    note = f"Fetched by us were only {', '.join(fetched)}" if fetched else "None of these was fetched by us"
    note += "; the numbers of the others are as published."
    unknown = {unknown_name_remark(model.shape.architecture) for model in fitting}
    lines += ["", *_wrap(ORDER), *_wrap(COLUMNS), *_wrap(note)]
    lines += [line for sentence in sorted(unknown) for line in _wrap(sentence)]
    rest = [model for model in models if not model.fits_in_memory]
    if rest:
        smallest_first = sorted(rest, key=lambda model: model.shape.file_bytes)
        lines += ["", *_wrap(f"Do not fit: {'; '.join(f'{model.name} {model.reason}' for model in smallest_first)}.")]
    lines += ["", *(line for sentence in answer for line in _wrap(sentence))]
    if fitting:
        lines += [
            "",
            *_wrap(
                f"To serve one: epyc_llama_models: [{{name: {fitting[0].name}}}] fetches it, and the name is the model "
                "of an instance in epyc_llama_instances. benchmark.yml then measures what is predicted here."
            ),
        ]
    return "\n".join(lines) + "\n"


def _describe_places(places: Sequence[ServingPlace]) -> str:
    best = places[0]
    source = "as measured" if best.source == "measured" else "by paper, not measured"
    sockets = len(best.socket_bytes)
    of_socket = "each socket" if sockets > 1 else "the socket"
    both = f" A model that fits on no socket spans {sockets}." if sockets > 1 else ""
    return (
        f"A model decodes on {best.processor.threads} cores of {of_socket}, which read {best.gbps:.0f} GB/s ({source}) "
        f"from {format_bytes_short(max(0, best.bytes))} of free memory.{both}"
    )


def _render_table(models: Sequence[ServableModel], wanted: WantedService) -> Iterator[str]:
    rows = [HEAD, *(_table_row_of_model(model, wanted) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def _table_row_of_model(model: ServableModel, wanted: WantedService) -> tuple[str, ...]:
    rate = model.rate
    if rate is None:
        return tuple("" for dummy in HEAD)
    copies = f"{model.copies} x " if model.copies > 1 else ""
    slow = "" if rate.tokens_per_second >= wanted.rate else " slow"
    gains = f"x{model.gains[0]:.1f}-{model.gains[1]:.1f}" if model.gains and model.gains[1] >= LEAST_GAIN else "-"
    return (
        model.name,
        model.shape.quantization,
        f"{copies}{format_bytes_short(round(model.bytes_needed(model.context)))}",
        f"{_format_rate(rate.tokens_per_second)}{slow}",
        f"{_format_rate(rate.low)}-{_format_rate(rate.high)}",
        _format_rate(rate.ceiling),
        gains,
        str(model.users),
        f"{model.context >> 10}k",
        f"{model.quality['score']:g}" if model.benchmark else "-",
    )


def _format_rate(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
