# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an interface has lost since a release, and which losses no changelog fragment announces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tools.interface.sources import OPTIONAL, Interface

#: The sections of the changelog that may announce a loss.
SECTIONS = ("breaking_changes", "removed_features", "deprecated_features")
#: Kind of the interface -> key of plugin_routing in meta/runtime.yml.
ROUTED = {"Modules": "modules", "Filters": "filter", "Lookups": "lookup", "Callbacks": "callback"}


class Loss(NamedTuple):
    """A name that is gone, or a part of a name; ``part`` is empty where the name itself is gone."""

    kind: str
    name: str
    part: str = ""

    @property
    def words(self) -> set[str]:
        """The words that an announcement must have: the name before the first dot, the last one, and a lost value."""
        first, *others = self.name.split(".")
        return {first, *others[-1:], *([self.part.lstrip("=")] if self.part.startswith("=") else [])}

    def __str__(self) -> str:
        if self.part == OPTIONAL:
            return f"{self.kind}: {self.name} is required now"
        return f"{self.kind}: {self.name} {f'has no {self.part!r} any more' if self.part else 'is gone'}"


def list_losses(before: Interface, now: Interface) -> list[Loss]:
    """Return what users of the interface before miss in the one of now; what is inside a lost name is not repeated."""
    losses = []
    for kind, names in before.items():
        present = now.get(kind, {})
        for name, parts in names.items():
            if name in present:
                losses += [Loss(kind, name, part) for part in parts if part not in present[name]]
            elif "." not in name or name.rpartition(".")[0] in present or name.rpartition(".")[0] not in names:
                losses.append(Loss(kind, name))
        # A new option that is required breaks each use of what it is an option of.
        losses += [
            Loss(kind, name, OPTIONAL)
            for name, parts in present.items()
            if parts and OPTIONAL not in parts and name not in names and _is_option(kind)
            if name.rpartition(".")[0] in names
        ]
    return losses


def _is_option(kind: str) -> bool:
    return kind in ("Variables of roles", *ROUTED)


def list_unannounced_losses(
    losses: Sequence[Loss], fragments: Mapping[str, Sequence[str]], routing: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a sentence for each loss without an entry of the changelog, or without a route to what replaces it."""
    entries = [set(re.findall(r"[\w+-]+", text)) for section in SECTIONS for text in fragments.get(section, ())]
    for loss in losses:
        if not any(set(re.findall(r"[\w+-]+", " ".join(loss.words))) <= entry for entry in entries):
            yield f"{loss}, and no fragment says so under {', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}"
        if loss.kind in ROUTED and not loss.part and "." not in loss.name:
            route = (routing.get(ROUTED[loss.kind]) or {}).get(loss.name, {})
            if not {"redirect", "tombstone"} & route.keys():
                yield f"{loss}, and plugin_routing of meta/runtime.yml has no redirect and no tombstone for it"
