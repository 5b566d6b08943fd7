# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Projectors, which turn images or sounds into vectors that a model reads: files that are none, or of another width.

Source: tools/mtmd/clip.cpp of llama.cpp.
"""

from __future__ import annotations

from .hyperparameters import EMBEDDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Model

ARCHITECTURE = "clip"
WIDTHS = ("clip.vision.projection_dim", "clip.audio.projection_dim", "clip.projection_dim")


def unsuitable_projector_reasons(model: Model, projector: Model) -> Iterator[str]:
    """Yield why a file cannot be the projector of a model.

    Converters have written other widths than that of the output, so a file is of another width only where neither the
    header nor the shape of any tensor has the width of the model.
    """
    if projector.architecture != ARCHITECTURE:
        yield (
            f"projector: {projector.path} is a model of the architecture {projector.architecture}, not a projector. "
            "Give the mmproj file that belongs to the model."
        )
        return
    width = model.header_number_of_architecture(EMBEDDING)
    widths = [number for number in map(projector.header_number, WIDTHS) if number]
    shapes = {size for tensor in projector.tensors for size in (tensor.row_length, tensor.rows, tensor.matrices)}
    if width and widths and width not in widths and width not in shapes:
        yield (
            f"projector: {projector.path} makes vectors of {widths[0]} numbers, and {model.path} reads vectors of "
            f"{width}. Give the mmproj file that belongs to the model."
        )
