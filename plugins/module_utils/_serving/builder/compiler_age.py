# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that a compiler knows this CPU. An older compiler silently builds for an earlier CPU.

Source: the lists of changes of GCC 6, 9, 10.3, 12.3, 14 and 16, and of clang 4, 9, 12, 16, 19 and 23, for -march=znver1
to znver6.
"""

from __future__ import annotations

import re

from ..._generations import find_row

#: CPU family, first and last model, the name for -march, and the first GCC and clang that know it.
FIRST_COMPILERS = (
    (23, 0x00, 0x2F, "znver1", (6, 1), (4, 0)),
    (23, 0x30, 0xFF, "znver2", (9, 1), (9, 0)),
    (25, 0x00, 0x0F, "znver3", (10, 3), (12, 0)),
    (25, 0x10, 0x1F, "znver4", (12, 3), (16, 0)),
    (25, 0xA0, 0xAF, "znver4", (12, 3), (16, 0)),
    (26, 0x00, 0x4F, "znver5", (14, 1), (19, 0)),
    (26, 0x50, 0x57, "znver6", (16, 1), (23, 0)),
    (26, 0x60, 0x77, "znver5", (14, 1), (19, 0)),
)
CLANG, GCC = re.compile(r"clang version (\d+)\.(\d+)"), re.compile(r"\) (\d+)\.(\d+)")


def old_compiler_message(compiler: str, vendor: str, family: int, model: int) -> str:
    """Return a message where a compiler, by its version text, is older than the CPU; empty for other compilers."""
    clang, gcc = CLANG.search(compiler), GCC.search(compiler)
    version = clang or gcc
    row = find_row(FIRST_COMPILERS, family, model) if vendor == "AuthenticAMD" else None
    if row is None or version is None:
        return ""
    *dummy, march, first_gcc, first_clang = row
    first = first_clang if clang else first_gcc
    if (int(version[1]), int(version[2])) >= first:
        return ""
    name = f"clang {first[0]}" if clang else f"GCC {first[0]}.{first[1]}"
    return (
        f"The compiler is older than this CPU: {march} needs {name}, and this is {compiler}. It builds for an earlier "
        "CPU. Install a newer one, and name it with CMAKE_C_COMPILER and CMAKE_CXX_COMPILER in cmake_options."
    )
