# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive of Python modules on a host that ``sovereign-epyc bench`` runs.

The archive has every module that a benchmark imports, also modules of the host tool, so that modules of two versions
never run together. It is in the folder of the host tool, and is removed with the folder.
"""

from __future__ import annotations

import io
import os
import zipfile

from .._io import module_sources, textfile
from .._io.module_sources import BENCH, BENCH_PACKAGE, PACKAGE
from .._io.paths import HOST_TOOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Modules that import Ansible, and so would fail on a host without Ansible.
LEFT_OUT = ("_ansible", "_knob_module")


def install_benchmark_archive(root: str = "/") -> bool:
    """Install the archive of the running modules where the host tool is installed; return whether that changed it."""
    if not os.path.exists(textfile.path_in_tree(root, HOST_TOOL)):
        return False
    path = textfile.path_in_tree(root, BENCH)
    # textfile takes only texts; a text with surrogate escapes is written as the same bytes.
    data = _build_zip_archive().decode("utf-8", "surrogateescape")
    if textfile.read_text(path) == data:
        return False
    textfile.write_file(path, data, keep_owner=False)
    return True


def modules_unlike_host_tool(root: str = "/") -> list[str]:
    """Return the paths of running modules that differ from the same modules of the host tool."""
    package = textfile.path_in_tree(root, PACKAGE)
    modules = _list_running_module_sources()
    return [path for path, text in modules if textfile.read_text(f"{package}/{path}") not in (None, text)]


def _list_running_module_sources() -> Iterator[tuple[str, str]]:
    top = __import__(__package__.rpartition(".")[0], fromlist=[""])
    return module_sources.list_module_sources(top.__path__, LEFT_OUT)


def _build_zip_archive() -> bytes:
    """Return the archive as bytes; equal modules give equal bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted([("__init__.py", ""), *_list_running_module_sources()]):
            entry = zipfile.ZipInfo(f"{BENCH_PACKAGE}/{path}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return file.getvalue()
