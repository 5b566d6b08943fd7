# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kept facts of hosts: read from the files of the controller, and checked before anything is counted from them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.capacity_facts import VERSION
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.document_shape import PREDICTION
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.value_shapes import (
    AMOUNT,
    COUNT,
    PORTION,
    SPEED,
    WHOLE,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.foreign_json import parse_json
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import (
    ANY,
    Leaf,
    Nullable,
    text_choice_shape,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed, require_shape
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.escaping import escape_unprintable_in_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bytes and numbers of parameters, which are larger than what run documents count.
LARGEST_SIZE = 10**18
SIZE = Leaf(
    "a size from 0 up",
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE,
)
SOURCE = text_choice_shape("measured", "paper")
PROCESSOR = {"cores": COUNT, "core_speed": SPEED, "reads_far_memory": bool, "sockets": COUNT, "threads": COUNT}
SOCKET = {
    "number": WHOLE,
    "nodes": [WHOLE],
    "bytes": SIZE,
    "ccds": WHOLE,
    "processor": PROCESSOR,
    "gbps": SPEED,
    "source": SOURCE,
}
MODEL = {
    **dict.fromkeys(("name", "architecture", "quantization"), str),
    **dict.fromkeys(("active_parameters", "bytes_per_token", "file_bytes", "kv_bytes_per_token", "parameters"), SIZE),
    **dict.fromkeys(("layers", "trained_context"), WHOLE),
    "expert_share": PORTION,
}
RATE = {"streams": COUNT, "tokens_per_second": AMOUNT, "steps_per_second": AMOUNT, "output": AMOUNT}
RUN = {
    **dict.fromkeys(("id", "instance", "started"), str),
    **dict.fromkeys(("host", "sku", "kernel", "engine", "engine_build", "quantization", "model"), Nullable(str)),
    "predictions": [PREDICTION],
    "rates": [RATE],
    "watts": Nullable(AMOUNT),
    "tokens_per_joule": Nullable(AMOUNT),
}
INSTANCE = {
    **dict.fromkeys(("name", "engine", "model", "unknown"), str),
    "shape": Nullable(MODEL),
    "files": {ANY: SIZE},
    "mapped": [str],
    "slots": COUNT,
    "context": WHOLE,
    "nodes": [WHOLE],
    "processor": PROCESSOR,
    "gbps": SPEED,
    "source": SOURCE,
    "run": Nullable(RUN),
}
#: The part of MemorySpeed.to_dict that is counted with. A later version may have more.
MEMORY = {
    "theoretical_gbps": Nullable(AMOUNT),
    "measured_gbps": Nullable(AMOUNT),
    "share": Nullable(AMOUNT),
    "stale_reason": str,
    "faults": [str],
    ANY: object,
}
FACTS_SHAPE = {
    "version": WHOLE,
    **dict.fromkeys(("time", "model", "sku", "kernel"), str),
    **dict.fromkeys(("family", "model_number"), WHOLE),
    "bytes": SIZE,
    "memory": MEMORY,
    "sockets": [SOCKET],
    "instances": [INSTANCE],
}
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
NONE_KEPT = "no facts are kept"


def choose_host_facts(fresh: Any, path: str) -> tuple[dict[str, Any] | None, str]:
    """Return the fresh facts of a host, else those in a file of the controller; None and the reason without any."""
    try:
        data = parse_json(Path(path).read_text(encoding="utf-8")) if fresh is None else fresh
        require_host_facts(data)
    except FileNotFoundError:
        return None, NONE_KEPT
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    except ValueError as error:
        return None, f"the facts in {path} cannot be used: {error}"
    facts: dict[str, Any] = escape_unprintable_in_texts(data)
    return facts, ""


def require_host_facts(data: Any) -> None:
    """Raise Malformed for data that is no facts of a host, or facts of another version of the collection."""
    if isinstance(data, dict) and data.get("version") != VERSION:
        raise Malformed("they are of another version of the collection; ask the host again")
    require_shape(data, FACTS_SHAPE, "facts")
    if not data["sockets"]:
        raise Malformed("they name no socket; ask the host again")


def age_in_words(facts: Mapping[str, Any], now: datetime) -> str:
    """Return how old facts are, such as "3 days"; "an unknown time" where they have no valid time."""
    try:
        read = datetime.strptime(facts["time"], TIME_FORMAT).replace(tzinfo=timezone.utc)
    except ValueError:
        return "an unknown time"
    minutes = max(0, int((now - read).total_seconds() // 60))
    for size, unit in ((60 * 24, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            return f"{minutes // size} {unit}{'' if minutes // size == 1 else 's'}"
    return "less than a minute"
