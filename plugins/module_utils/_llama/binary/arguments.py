# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of a llama-server of llama.cpp, of whatever era, from what is wanted and what its --help says."""

from __future__ import annotations

from ..._errors import BadRequest
from . import ik_llama
from .capabilities import IK, PINS_SINCE
from .flags import FLAGS, SPEC_TYPES, spelled
from .wants import NGRAM, check, of_kinds, to_say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .capabilities import Capabilities

#: The most CPUs that its masks hold.
MASK = 512


def arguments(wants: Mapping[str, Any], capabilities: Capabilities) -> list[str]:
    """Return the arguments for this binary, by the builder of its engine. BadRequest for what it cannot have."""
    if capabilities.engine == IK:
        return ik_llama.arguments(wants, capabilities)
    kinds = check(wants)
    if wants.get("cpus") and not capabilities.pins_work:
        raise BadRequest(
            f"{capabilities.name} is not known to bind threads to CPUs: llama-server took masks without effect until "
            f"build {PINS_SINCE}. Set GOMP_CPU_AFFINITY in its environment when it was built with OpenMP, or give the "
            "unit exactly these CPUs."
        )
    words: list[str] = []
    for want, value in to_say(wants):
        if want in NGRAM:
            for row in of_kinds(want, value, kinds, FLAGS):
                words += spelled(row, value, FLAGS, capabilities)
        else:
            words += spelled(want, _text(want, value), FLAGS, capabilities)
    return [*words, *_speculation(kinds, capabilities), *wants.get("extra", [])]


def _text(want: str, value: Any) -> object:
    if want == "cpus":
        if max(value) >= MASK:
            raise BadRequest(f"CPU {max(value)} has no place in the masks of llama-server, which end at {MASK - 1}.")
        return hex(sum(1 << cpu for cpu in value))
    if want == "experts":
        architecture, count = value
        return f"{architecture}.expert_used_count=int:{count}"
    return value


def _speculation(kinds: list[str], capabilities: Capabilities) -> list[str]:
    """Return --spec-type as this era has it: for each kind, or only for n-grams, or not at all."""
    flag = "--spec-type"
    drafts_by_model = SPEC_TYPES["draft"] not in capabilities.values(flag)
    if not kinds or (kinds == ["draft"] and drafts_by_model):
        # Up to build 9113 a draft model was all it took.
        return []
    if len(kinds) > 1 and not capabilities.takes_many(flag):
        raise BadRequest(
            f"{capabilities.name} has one kind of speculation at a time, and {', '.join(kinds)} are wanted. Take one "
            "of them, or a build that takes several in --spec-type."
        )
    names = ",".join(SPEC_TYPES.get(kind, kind) for kind in kinds)
    return spelled("speculation", names, FLAGS, capabilities)
