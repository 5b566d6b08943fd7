# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decode rates that others published for EPYC servers, each beside the prediction for the same machine and model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MEASURED, PAPER, USUAL_SHARE
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import shape_of_catalogue_entry
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.decode_rate import (
    predict_decode_rate,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.step_floor import (
    Processor,
    find_core_speed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.decode_rate import DecodeRate

FILE = Path(__file__).with_name("public_decode_rates.yml")
#: The keys of a row that an answer shows beside the numbers.
SHOWN_KEYS = ("cpu", "model", "source")
#: A prediction hits a published rate that is at most this share away from it.
HIT_SHARE = 0.25


class PublicRate:
    """A published decode rate: its numbers (``row``), and the prediction for the same machine and model."""

    def __init__(self, row: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> None:
        self.row = row
        self.name = str(row["name"])
        self.rate = float(row["rate"])
        self.shape = shape_of_catalogue_entry(row["model"], {"shape": models[row["model"]]})
        self.prediction = self._predict()

    def _predict(self) -> DecodeRate:
        cpus, memory = self.row["cpus"], self.row["memory"]
        measured = memory["measured_gbps"]
        processor = Processor(
            cpus["threads"],
            cpus["cores"],
            cpus["sockets"],
            find_core_speed(cpus["family"], cpus["model_number"]),
            False if memory.get("local") else None,
        )
        gbps = measured or USUAL_SHARE * memory["theoretical_gbps"]
        return predict_decode_rate(self.shape, processor, gbps, MEASURED if measured else PAPER)

    @property
    def relative_prediction_error(self) -> float:
        """How far the prediction is from the published rate, as a share of that rate; negative for too low a one."""
        return self.prediction.tokens_per_second / self.rate - 1

    @property
    def is_hit(self) -> bool:
        """Whether the prediction is at most HIT_SHARE away from the published rate."""
        return abs(self.relative_prediction_error) <= HIT_SHARE

    @property
    def is_usable_as_evidence(self) -> bool:
        """Whether the row proves something: its source names no fault, and no constant comes from it."""
        return not (self.row.get("fault") or self.row.get("constant_from"))


def load_public_rates() -> list[PublicRate]:
    """Return all published rates with their predictions, in the order of the file."""
    data = yaml_load(FILE.read_text(encoding="utf-8"))
    return [PublicRate(row, data["models"]) for row in data["rates"]]


def hit_share(rates: Iterable[PublicRate]) -> float:
    """Return the share of hits among the rates that count."""
    counted = [rate.is_hit for rate in rates if rate.is_usable_as_evidence]
    return sum(counted) / len(counted)


def list_rates_of_small_mixtures(most_active_billions: float) -> list[dict[str, Any]]:
    """Return the fastest rate of each server and model, as plain data, for mixtures with few active parameters.

    The fastest come first. Rows with a fault that their source names are left out.
    """
    fitting = [
        rate
        for rate in load_public_rates()
        if rate.shape.is_mixture
        and rate.shape.active_parameters <= 1e9 * most_active_billions
        and not rate.row.get("fault")
    ]
    fastest: dict[tuple[str, str], dict[str, Any]] = {}
    for rate in sorted(fitting, key=lambda rate: -rate.rate):
        data = {"rate": rate.rate, "gbps": rate.prediction.gbps, **{key: rate.row[key] for key in SHOWN_KEYS}}
        fastest.setdefault((str(rate.row["cpu"]), str(rate.row["model"])), data)
    return list(fastest.values())
