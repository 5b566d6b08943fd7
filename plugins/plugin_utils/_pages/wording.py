# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words that several pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def format_host_group(group: Mapping[str, Any]) -> str:
    """Return the folded names of a group's hosts, with their number where there are several."""
    hosts = group["hosts"]
    return f"{group['label']} ({len(hosts)} hosts)" if len(hosts) > 1 else str(group["label"])


def count_with_noun(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 host" or "2 hosts"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
