# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["cpu03", "cpu01", "cpu02"], "cpu[01-03]"),
        ([f"cpu{n:02d}" for n in range(8, 12)], "cpu[08-11]"),
        (["cpu9", "cpu10", "cpu12"], "cpu[9-10,12]"),
        (["cpu1"], "cpu1"),
        (["cpu01", "cpu1"], "cpu01, cpu1"),
        (["cpu01", "cpu100"], "cpu01, cpu100"),
        (["login", "cpu1", "cpu2"], "cpu[1-2], login"),
        (["a1.one.example", "a2.one.example", "a1.two.example"], "a[1-2].one.example, a1.two.example"),
        (["rack2-node7", "rack2-node8", "rack3-node7"], "rack2-node[7-8], rack3-node7"),
        (["10.0.0.7", "10.0.0.8"], "10.0.0.[7-8]"),
        (["n1b", "n2b"], "n[1-2]b"),
        ([], ""),
        (["a\u0663", "a\u0664"], "a\u0663, a\u0664"),
        ([f"a{'9' * 5000}", "a1", "a2"], f"a[1-2], a{'9' * 5000}"),
        ([f"a0{10**18}", f"a0{10**18 + 1}"], f"a0{10**18}, a0{10**18 + 1}"),
    ],
)
def test_host_names_are_folded_into_ranges(names: list[str], text: str) -> None:
    assert fold_host_names(names) == text
    assert fold_host_names(reversed(names)) == text
