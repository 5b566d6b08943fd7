# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Supplies the one file that the package of ik_llama.cpp in the index of Python packages lacks, and its build needs.

The build runs this file as a script of cmake, in the source tree, to write build-info.cpp from its template. The script
of ik_llama.cpp takes the version from git, which an archive does not have; the script here names the archive.
Source: common/CMakeLists.txt and common/build-info.cpp.in of ik_llama.cpp.
"""

from __future__ import annotations

import os
import re

from ..._io import textfile

TEMPLATE = "common/build-info.cpp.in"
SCRIPT = "common/cmake/build-info-gen-cpp.cmake"
#: Characters that end a text of cmake, or that cmake replaces in a text.
UNSAFE_CHARACTERS = re.compile(r"[^\w.+-]")
SCRIPT_TEXT = """\
# Supplied by the collection sovereign.epyc, because the archive of these sources lacks this script.
set(BUILD_NUMBER 0)
set(BUILD_COMMIT "{archive}")
set(BUILD_COMPILER "${{CMAKE_C_COMPILER_ID}} ${{CMAKE_C_COMPILER_VERSION}}")
set(BUILD_TARGET "${{CMAKE_HOST_SYSTEM_NAME}}")
configure_file(common/build-info.cpp.in common/build-info.cpp)
"""


def supply_build_info_script(tree: str, archive: str) -> bool:
    """Write the script of a source tree that has only its template; return whether the script was missing.

    ``archive`` is the name that the server gives as its version.
    """
    script = os.path.join(tree, SCRIPT)
    if os.path.exists(script) or not os.path.isfile(os.path.join(tree, TEMPLATE)):
        return False
    textfile.write_file(script, SCRIPT_TEXT.format(archive=UNSAFE_CHARACTERS.sub("_", archive)))
    return True
