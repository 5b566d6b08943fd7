# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that a compiler knows this CPU. An older compiler silently builds for an earlier CPU.

Source: the lists of changes of GCC 10.3, 12.3 and 14, and of clang 12, 16 and 19, for -march=znver3 to znver5.
"""

from __future__ import annotations

import re

#: AMD family, range of models, name for -march, and the first GCC and clang that know this name.
FIRST_COMPILERS = (
    (25, 0x00, 0x0F, "znver3", (10, 3), (12, 0)),
    (25, 0x10, 0x1F, "znver4", (12, 3), (16, 0)),
    (25, 0xA0, 0xAF, "znver4", (12, 3), (16, 0)),
    (26, 0x00, 0xFF, "znver5", (14, 1), (19, 0)),
)
CLANG, GCC = re.compile(r"clang version (\d+)\.(\d+)"), re.compile(r"\) (\d+)\.(\d+)")


def old_compiler_message(compiler: str, vendor: str, family: int, model: int) -> str:
    """Return a message where a compiler, by its version text, is older than the CPU; empty for other compilers."""
    clang, gcc = CLANG.search(compiler), GCC.search(compiler)
    version = clang or gcc
    for of_family, low, high, march, first_gcc, first_clang in FIRST_COMPILERS:
        if version and vendor == "AuthenticAMD" and family == of_family and low <= model <= high:
            first = first_clang if clang else first_gcc
            if (int(version[1]), int(version[2])) < first:
                name = f"clang {first[0]}" if clang else f"GCC {first[0]}.{first[1]}"
                return (
                    f"The compiler is older than this CPU: {march} needs {name}, and this is {compiler}. It "
                    "builds for the CPU before it. Install a newer one, and name it with CMAKE_C_COMPILER and "
                    "CMAKE_CXX_COMPILER in cmake_options."
                )
    return ""
