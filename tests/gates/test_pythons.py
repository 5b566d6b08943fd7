# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit tests on every other Python of a managed host, and with the oldest ansible-core.

ansible-test has the oldest Python, and the pytest run itself the clone's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from vepyc.venvs import OLDEST_CORE, venv

ROOT = Path(__file__).parents[2]
TESTS = "tests/unit/plugins"
#: What runs on the hosts.
ENGINE = f"{TESTS}/module_utils"
#: What runs on the controller.
PLUGINS = tuple(f"{TESTS}/{kind}" for kind in ("action", "callback", "lookup", "plugin_utils"))
LINES = (ROOT / "tests/unit/requirements.txt").read_text(encoding="utf-8").splitlines()
NEEDS = ("pytest", "pytest-xdist", *(line for line in LINES if line and not line.startswith("#")))
OURS = "{}.{}".format(*sys.version_info)
#: No word of skipped ones.
PASSED = re.compile(r"^\d+ passed in ", re.MULTILINE)


@pytest.mark.parametrize("version", sorted({"3.10", "3.11", "3.12", "3.13"} - {OURS}))
def test_a_host_may_have_this_python(
    version: str, pythons: dict[str, str], run: Callable[..., str], tmp_path: Path
) -> None:
    """With Ansible's module_utils of the controller, as a play brings them to a host."""
    if version not in pythons:
        pytest.skip(f"there is no Python {version} on this machine")
    (ansible,) = find_spec("ansible").submodule_search_locations  # type: ignore[union-attr,misc]
    (tmp_path / "ansible").symlink_to(ansible)
    programs = venv(*NEEDS, python=pythons[version])
    said = run(str(programs / "python"), "-m", "pytest", "-q", ENGINE, env={"PYTHONPATH": str(tmp_path)})
    assert PASSED.search(said), said


def test_the_oldest_core(run: Callable[..., str]) -> None:
    """On the controller: the plugins, and every playbook with all that it speaks of."""
    programs = venv(OLDEST_CORE, *NEEDS)
    said = run(str(programs / "python"), "-m", "pytest", "-q", *PLUGINS)
    assert PASSED.search(said), said
    playbooks = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("playbooks/*.yml"))
    command = [str(programs / "ansible-playbook"), "--syntax-check", "-i", "inventories/example", *playbooks]
    assert run(*command).count("playbook: ") == len(playbooks)
