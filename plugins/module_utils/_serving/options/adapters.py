# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""LoRA adapters: small files that change the answers of a model. Each adapter has a scale.

Source: common/arg.cpp of llama.cpp (--lora-scaled), and general.type and adapter.type in gguf-py/gguf/constants.py.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._models.model import Model

KEY = "adapters"
#: The server gets all adapters in one argument, with commas between the adapters and a colon before each scale.
SEPARATORS = ",:"
LARGEST_SCALE = 100.0


def parse_adapter_scales(value: object) -> dict[str, float]:
    """Return the scale of each adapter by the adapter's path; BadRequest unless the value is such a dictionary."""
    if not isinstance(value, dict):
        raise BadRequest(
            f"{KEY} must be a dictionary of files and their scales, as {{/srv/a.gguf: 1.0}}, not '{value}'."
        )
    return {_parse_path(path): _parse_scale(path, scale) for path, scale in value.items()}


def _parse_path(path: object) -> str:
    text = str(path)
    if not text.startswith("/") or not text.isprintable() or any(separator in text for separator in SEPARATORS):
        raise BadRequest(
            f"{KEY}: '{text}' is no path that the server takes. Say the whole path, from / on; it must have no "
            "comma and no colon."
        )
    return text


def _parse_scale(path: object, scale: object) -> float:
    number = parse_decimal(scale)
    if number is None or abs(number) > LARGEST_SCALE:
        raise BadRequest(f"{KEY}: the scale of {path} is '{scale}'; say a number, of which 1 is the usual adapter.")
    return number


def validate_adapters(adapters: Sequence[Model], model: Model) -> None:
    """Raise BadRequest for a file that is no LoRA adapter, or whose architecture is not that of the model."""
    for adapter in adapters:
        if adapter.header_text("general.type") != "adapter" or adapter.header_text("adapter.type") != "lora":
            raise BadRequest(
                f"{KEY}: {adapter.path} is no LoRA adapter, by its header. Convert one with convert_lora_to_gguf.py of "
                "llama.cpp, and name a whole model with the option model."
            )
        if adapter.architecture != model.architecture:
            raise BadRequest(
                f"{KEY}: {adapter.path} is for models of the architecture {adapter.architecture}, and {model.path} is "
                f"{model.architecture}. Take the adapter that was made for this model."
            )


def format_lora_scaled_value(scales: dict[str, float]) -> str:
    """Return the value of the flag --lora-scaled: the path and the scale of each adapter."""
    return ",".join(f"{path}:{scale:g}" for path, scale in scales.items())
