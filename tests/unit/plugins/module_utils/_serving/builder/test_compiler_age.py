# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compilers of Debian and Ubuntu as they name themselves, and the CPUs that they do not know."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder.compiler_age import old_compiler_message

GCC_12, GCC_13 = "c++ (Debian 12.2.0-14+deb12u1) 12.2.0", "g++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"
GCC_14, CLANG_16 = "c++ (Debian 14.2.0-19) 14.2.0", "Debian clang version 16.0.6 (27+b1)"
GCC_15, GCC_16 = "c++ (Ubuntu 15.2.0-4ubuntu4) 15.2.0", "c++ (Ubuntu 16.1.0-2ubuntu1) 16.1.0"
ROME, MILAN, GENOA, BERGAMO, TURIN, VENICE = (23, 49), (25, 1), (25, 17), (25, 160), (26, 2), (26, 80)


@pytest.mark.parametrize(
    ("compiler", "cpu", "words"),
    [
        (GCC_12, MILAN, ""),
        (GCC_12, GENOA, "znver4 needs GCC 12.3, and this is c++ (Debian 12.2.0"),
        (GCC_12, BERGAMO, "znver4 needs GCC 12.3"),
        ("g++ (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", GENOA, ""),
        (GCC_13, BERGAMO, ""),
        (GCC_13, TURIN, "znver5 needs GCC 14.1"),
        (GCC_14, TURIN, ""),
        (CLANG_16, GENOA, ""),
        (CLANG_16, TURIN, "znver5 needs clang 19"),
        ("some other compiler 1.0", TURIN, ""),
        (GCC_12, ROME, ""),
        ("g++ (SUSE Linux) 8.5.0", ROME, "znver2 needs GCC 9.1"),
        (GCC_15, TURIN, ""),
        (GCC_15, VENICE, "znver6 needs GCC 16.1"),
        (GCC_16, VENICE, ""),
        ("Ubuntu clang version 22.1.0", VENICE, "znver6 needs clang 23"),
        ("Ubuntu clang version 23.1.1", VENICE, ""),
        (GCC_12, (26, 0xD0), ""),
    ],
)
def test_a_compiler_older_than_the_cpu_is_told(compiler: str, cpu: tuple[int, int], words: str) -> None:
    said = old_compiler_message(compiler, "AuthenticAMD", *cpu)
    assert words in said and bool(said) == bool(words)
    assert old_compiler_message(compiler, "GenuineIntel", *cpu) == ""
