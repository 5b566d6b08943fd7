# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values that a plan chose itself because the inventory has none, each with its reason and the way to undo it.

Only choices that an administrator would want to hear of become a DefaultChoice, such as fewer threads than cores.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..options.options import Options


class DefaultChoice:
    """A value of an option that the plan chose.

    ``reason`` is a clause that follows "because", with the short name of its source. ``expected_gain`` is a text such
    as "about 1.2 times the decode rate, predicted", "" where nothing is known. ``undo`` is the line of the inventory
    that has the server run without this choice, such as "threads: 96".
    """

    __slots__ = ("expected_gain", "option", "reason", "undo", "value")

    def __init__(self, option: str, value: Any, reason: str, expected_gain: str = "", undo: str = "") -> None:
        self.option = option
        self.value = value
        self.reason = reason
        self.expected_gain = expected_gain
        self.undo = undo

    def to_remark(self) -> str:
        """Return the choice in sentences: "threads is 48 by default, because .... Expected gain: .... To undo: ..."."""
        sentences = [f"{self.option} is {self.value} by default, because {self.reason}."]
        sentences += [f"Expected gain: {self.expected_gain}."] if self.expected_gain else []
        sentences += [f"To undo it, set '{self.undo}'."] if self.undo else []
        return " ".join(sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain data for facts, pages and stored documents."""
        return {key: getattr(self, key) for key in self.__slots__}


def list_catalogue_choices(options: Options) -> list[DefaultChoice]:
    """Return the sampling as a choice of the plan, if it comes from the catalogue of models."""
    if not options.catalogue_model.get("recommended_sampling"):
        return []
    values = ", ".join(f"{name} {value:g}" for name, value in options.sampling.items())
    reason = f"the catalogue recommends it for {options.catalogue_model['name']}"
    return [DefaultChoice("sampling", values, reason, undo="sampling: {}")]
