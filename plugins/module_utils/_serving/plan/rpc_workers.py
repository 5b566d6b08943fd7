# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model that is larger than its host: RPC workers on other hosts hold some of its layers and compute them.

The layers are computed one after the other, so that a token takes as long as on one host, and the network on top.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model import Model
    from ..options.options import Options
    from .instance_plan import Need

#: The embeddings and the output stay with the head, and count as so many layers.
AT_THE_HEAD = 2


def layers(options: Options, model: Model) -> int:
    """Return how many layers the workers hold together: with equal hosts, each holds as many as the head."""
    count = model.of_architecture("block_count")
    if not count:
        raise BadRequest(f"rpc_workers: {model.path} does not state its number of layers. Set rpc_layers.")
    workers = len(options.rpc_workers)
    number: int = options.rpc_layers or max(1, count * workers // (workers + 1))
    if number > count:
        raise BadRequest(f"rpc_layers is {number}, and {model.path} has {count} layers. Use at most {count}.")
    return number


def share(options: Options, model: Model, need: Need) -> list[str]:
    """Take from the need of this host what the workers hold, and return remarks on that."""
    number, count = layers(options, model), model.of_architecture("block_count") or 1
    away = need.weights * number // (count + AT_THE_HEAD), need.kv_cache * number // count
    need.weights -= away[0]
    need.kv_cache -= away[1]
    each = sum(away) // len(options.rpc_workers)
    return [
        f"rpc_workers is experimental, and makes room, not speed: {number} of {count} layers are on other hosts, "
        f"about {format_bytes_short(each)} on each of {len(options.rpc_workers)}, which has to be free there. When "
        "one of them ends, so does this server, and it begins anew."
    ]
