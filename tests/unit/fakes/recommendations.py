# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recommendations for a host of a known size, and the five models that they are made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.recommend import Request, recommend
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures
from ansible_collections.sovereign.epyc.tests.unit.fakes.architectures import Q4_K

GB = 10**9
#: The five models, and how many whole GiB their weights have in Q4_K.
SIZES = {"dense 8B": 3, "dense 32B": 16, "dense 70B": 35, "moe 30B-A3B": 15, "moe 671B": 350}


def write_models(folder: Path) -> dict[str, str]:
    """Write the five models, whose weights are holes; return their paths."""
    return {name: str(architectures.write(folder / f"{name}-Q4_K_M.gguf", name, Q4_K)) for name in SIZES}


def free_all_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no port taken, whatever runs on the machine of the tests."""
    monkeypatch.setattr(recommending, "require_free_port", lambda fs, options, units: None)


def recommended(fs: KernelFS, asked: object, root: Path, **more: Any) -> dict[str, Any]:
    request = Request(**{"folder": "/srv/models", "port": 8080, "binary": None, "timeout": 5, **more})
    return recommend(fs, asked, request, str(root))


def refused(fs: KernelFS, asked: object, root: Path, **more: Any) -> str:
    with pytest.raises(TuningError) as caught:
        recommended(fs, asked, root, **more)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    return str(caught.value)


def instances(result: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result["variables"]["epyc_llama_instances"]
    return rows
