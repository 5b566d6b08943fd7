# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers what a host can serve of the catalogue, without a model on the host.

Nothing is written, and only one program is run: systemctl, to find the running instances. The memory of these instances
counts as free.
"""

from __future__ import annotations

from ...._errors import BadRequest
from ...._notation.shape import ANY, Leaf, Nullable, first_misfit_message
from ...options.options import Options
from ...unit.installed import read_instance_unit_texts
from ...unit.shared_host import find_running_instances
from .. import host_variables
from ..memory_for_instances import read_memory_for_instances
from .fast_large_answer import answer_fast_large_model
from .servable_models import find_servable_models, list_serving_places
from .servable_report import render_servable_models

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ...._io.kernelfs import KernelFS
    from .servable_models import WantedService

#: Options of an instance of no model, for the questions about memory that depend on options.
ANY_INSTANCE = {"name": "model", "binary": "/usr/bin/llama-server", "model": "/model.gguf", "port": 8080}
#: The largest number in an entry, far above the bytes of any file.
LARGEST_NUMBER = 10**15
POSITIVE = Leaf(
    "a number above 0",
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LARGEST_NUMBER,
)
SCORE = Leaf(
    "a number",
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST_NUMBER,
)
NUMBERS = ("parameters", "active_parameters", "file_bytes", "layers")
MORE_NUMBERS = ("bytes_per_token", "kv_bytes_per_token", "trained_context", "expert_share")
#: The shapes of catalogue entries and of published rates; other keys are allowed.
ENTRIES = [
    {
        "name": ANY,
        "shape": {
            **dict.fromkeys(NUMBERS, POSITIVE),
            **dict.fromkeys(MORE_NUMBERS, Nullable(POSITIVE)),
            **dict.fromkeys(("architecture", "quantization"), Nullable(ANY)),
        },
        "drafts": Nullable([str]),
        "quality": Nullable({"name": ANY, "score": SCORE, "source": ANY}),
    }
]
PUBLIC_RATES = [{**dict.fromkeys(("cpu", "model", "source"), ANY), **dict.fromkeys(("rate", "gbps"), POSITIVE)}]


def recommend_servable_models(
    fs: KernelFS,
    entries: Sequence[Mapping[str, Any]],
    public_rates: Sequence[Mapping[str, Any]],
    wanted: WantedService,
    root: str = "/",
) -> dict[str, Any]:
    """Return the models that this host can serve, the best first, as text and as data, and the answer as sentences.

    ``entries`` are catalogue entries with ``name`` and ``shape``, and ``public_rates`` are published rates to show.
    BadRequest for an invalid one.
    """
    misfit = (
        first_misfit_message(entries, [{"name": ANY, "shape": dict}], "models", more_keys=True)
        or first_misfit_message(entries, ENTRIES, "models", lacks_keys=True, more_keys=True)
        or first_misfit_message(public_rates, PUBLIC_RATES, "public_rates", more_keys=True)
    )
    if misfit:
        raise BadRequest(f"{misfit}. The filters servable_entries and public_rates return valid values.")
    host = host_variables.make_recommended_host(fs)
    running_names = find_running_instances(list(read_instance_unit_texts(root)))
    free = read_memory_for_instances(host, Options.parse(ANY_INSTANCE), running_names)
    speed = host.memory_speed
    places = list_serving_places(host, free, speed)
    models = find_servable_models(entries, places, wanted)
    answer = answer_fast_large_model(models, public_rates)
    host_line = host_variables.describe_host(host, sum(free.available.values()))
    return {
        "text": render_servable_models([*speed.faults, host_line], models, places, wanted, answer),
        "models": [model.to_dict() for model in models],
        "answer": " ".join(answer),
        "memory": speed.to_dict(),
        "remarks": list(speed.faults),
    }
