# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entries of the catalogue, as the module that judges them for a host reads them."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.filter.public_rates import public_rates
from ansible_collections.sovereign.epyc.plugins.filter.servable_entries import servable_entries
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.recommend_servable import (
    recommend_servable_models,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.servable_models import (
    WantedService,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import sized


def test_the_entries_of_the_catalogue_are_all_judged(tmp_path: Path) -> None:
    entries = servable_entries({})
    result = recommend_servable_models(sized("9754"), entries, public_rates(12), WantedService(6, 8192), str(tmp_path))
    assert len(result["models"]) == len(entries) >= 17
    assert result["models"][0]["fits"]
