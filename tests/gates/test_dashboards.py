# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each dashboard is one of Grafana's, by the types of Grafana itself.

That each query has an answer is for tests/service/test_monitoring.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vepyc import playbook_runs
from vepyc.venvs import DASHBOARD_PACKAGES, ensure_node_modules

FILES = sorted((Path(__file__).parents[2] / "roles/epyc_monitoring/files/dashboards").glob("*.json"))
#: Types alone: nothing is written, and the packages are not checked themselves.
FLAGS = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022")


def compile_dashboards(folder: Path, **dashboards: Any) -> str:
    """What the compiler says of dashboards."""
    node, packages = ensure_node_modules(*DASHBOARD_PACKAGES)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    for name, dashboard in dashboards.items():
        text = "import type { Dashboard } from '@grafana/schema';\nexport const made: Dashboard = "
        (folder / f"{name}.ts").write_text(f"{text}{json.dumps(dashboard)};\n")
    compiler = packages / "node_modules/typescript/bin/tsc"
    done = playbook_runs.run_command(
        str(node), str(compiler), *FLAGS, *(f"{name}.ts" for name in dashboards), cwd=folder
    )
    assert done.returncode == 0 or done.stdout, "it says nothing of why it ended"
    return done.stdout


@pytest.mark.slow
def test_each_dashboard_has_the_types_of_grafana(tmp_path: Path) -> None:
    assert {file.stem for file in FILES} == {"fleet", "gateway", "host"}
    assert compile_dashboards(tmp_path, **{file.stem: json.loads(file.read_text()) for file in FILES}) == ""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{"schemaVersion": "41"}, {"timezone": 1}, {"panels": "none"}])
def test_the_types_find_what_is_wrong(tmp_path: Path, wrong: dict[str, Any]) -> None:
    assert "is not assignable to type" in compile_dashboards(
        tmp_path, host={**json.loads(FILES[2].read_text()), **wrong}
    )
