# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source texts of this package, from a folder or an archive, and their place on a host."""

from __future__ import annotations

import pkgutil

from .paths import HOST_TOOL_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

PACKAGE = f"{HOST_TOOL_FOLDER}/sovereign_epyc"
#: The archive with the benchmark on a host, and the package in it.
BENCH, BENCH_PACKAGE = f"{HOST_TOOL_FOLDER}/bench.zip", "sovereign_epyc_bench"


def import_from_benchmark_archive(module: str) -> Any:
    """Import a module of the library from the archive of the benchmark; ImportError where the host has no archive."""
    import sys
    from importlib import import_module

    if BENCH not in sys.path:
        sys.path.insert(0, BENCH)
    return import_module(f"{BENCH_PACKAGE}.{module}")


def list_module_sources(
    folders: Iterable[str], excluded: Iterable[str], package: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield path and text of all modules below folders but the excluded ones; the folders may be in an archive."""
    for finder, name, is_package in pkgutil.iter_modules(folders):
        if f"{package}{name}" in excluded:
            continue
        # The finder of an archive is also its loader; the finder of a folder returns the loader.
        loader: Any = finder if hasattr(finder, "get_source") else finder.find_spec(name, None).loader  # type: ignore[union-attr]
        path = f"{package}{name}".replace(".", "/")
        yield (f"{path}/__init__.py" if is_package else f"{path}.py"), loader.get_source(name)
        if is_package:
            yield from list_module_sources([f"{folder}/{name}" for folder in folders], excluded, f"{package}{name}.")
