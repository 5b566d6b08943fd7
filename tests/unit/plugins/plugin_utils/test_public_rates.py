# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predictions against published decode rates: at least 8 of 10 are within 25 percent, and each miss is explained."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.plugin_utils._public_rates import hit_share, load_public_rates


def test_predictions_hit_published_rates() -> None:
    rates = load_public_rates()
    assert len([rate for rate in rates if rate.is_usable_as_evidence]) >= 12
    assert hit_share(rates) >= 0.8


def test_each_miss_is_explained_and_each_row_has_its_source() -> None:
    for rate in load_public_rates():
        assert rate.row["source"] and rate.row["engine"] and rate.row["cpu"]
        assert rate.is_hit or rate.row.get("miss") or rate.row.get("fault"), rate.name
    assert len({rate.name for rate in load_public_rates()}) == len(load_public_rates())
