# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory in which a server keeps what it computed of a context, from the header of the model.

What counts as if each of its layers kept every token is never counted too small.
Source: src/llama-kv-cache*.cpp and llama-memory-*.cpp of llama.cpp, build 11434. The tests hold it against that
server's own figures.
"""

from __future__ import annotations

from ..._models.tensor_types import element
from ..._models.token_cost import NOTHING, STATE, Layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model import Model

#: Caches have room for multiples of so many tokens.
CELLS = 256


class KvCache:
    """Bytes for all slots, and those that a copy of one slot takes to which the server can go back.

    Only windows and states have to be copied: what was overwritten there cannot be had again. ``tokens`` is how many
    tokens a slot holds.
    """

    __slots__ = ("bytes", "checkpoint", "recurrent", "tokens")

    def __init__(self, size: int, checkpoint: int, recurrent: bool, tokens: int) -> None:
        self.bytes = size
        self.checkpoint = checkpoint
        self.recurrent = recurrent
        self.tokens = tokens


class CacheSettings:
    """What a server is told of its caches: tokens of all slots together, slots, tokens of a batch, types.

    ``windows`` is whether this server keeps less for layers with windows, ``compressed`` whether it keeps no values
    beside compressed keys, ``flat`` whether all layers take the width of the widest for values.
    """

    __slots__ = ("batch", "compressed", "context", "flat", "key", "slots", "value", "windows")

    def __init__(
        self,
        context: int,
        slots: int,
        batch: int,
        types: tuple[str, str],
        windows: bool = True,
        compressed: bool = True,
        flat: bool = False,
    ) -> None:
        self.context = context
        self.slots = slots
        self.batch = batch
        self.key, self.value = (element(name) for name in types)
        self.windows = windows
        self.compressed = compressed
        self.flat = flat

    @property
    def slot_tokens(self) -> int:
        """The tokens that a slot has room for."""
        return _round_up_to_cells(_round_up_to_cells(self.context) // self.slots)


def compute_kv_cache(model: Model, sizes: CacheSettings) -> KvCache | None:
    """Return the memory of a model's context; None where its header does not say its layers and heads."""
    header = Layers(model)
    if model.architecture in NOTHING:
        return KvCache(0, 0, False, sizes.slot_tokens)
    if not header.layers or not header.says_enough:
        return None
    states = [layer for layer in range(header.layers) if header.keeps_state(layer)]
    window = header.window if sizes.windows else 0
    narrow = (
        min(sizes.slot_tokens, _round_up_to_cells(min(sizes.slot_tokens, window + sizes.batch)))
        if window
        else sizes.slot_tokens
    )
    layers = [layer for layer in range(header.layers) if header.keeps_tokens(layer)]
    wide = max((header.values(layer) for layer in layers), default=0)
    whole = windowed = 0.0
    for layer in layers:
        values = wide if sizes.flat else header.values(layer)
        cell = header.keys(layer) * sizes.key + header.indexer * sizes.key
        cell += 0 if header.compressed and sizes.compressed else values * sizes.value
        if window and header.sees_window(layer):
            windowed += cell * narrow
        else:
            whole += cell * sizes.slot_tokens
    state = len(states) * header.state * STATE
    size = sizes.slots * (whole + windowed + state)
    return KvCache(int(size), int(windowed + state), bool(state), sizes.slot_tokens)


def _round_up_to_cells(tokens: int) -> int:
    return -(-tokens // CELLS) * CELLS
