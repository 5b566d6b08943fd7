# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hadamard matrices of all three constructions are orthogonal, and no larger than they have to be."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.hadamard import build_hadamard_matrix


@pytest.mark.parametrize(
    ("least", "order"), [(1, 1), (2, 2), (3, 4), (9, 12), (16, 16), (18, 20), (25, 28), (33, 36), (49, 56)]
)
def test_rows_are_orthogonal(least: int, order: int) -> None:
    matrix = build_hadamard_matrix(least)
    assert len(matrix) == order
    for at, row in enumerate(matrix):
        assert row[0] == 1 and set(row) <= {1, -1}
        products = [sum(one * other for one, other in zip(row, line)) for line in matrix]
        assert products == [order if place == at else 0 for place in range(order)]
