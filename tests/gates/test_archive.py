# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive that users install: what is in it, whether a Galaxy server would take it, and that it runs anywhere."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from vepyc.playbook_runs import run_command

ROOT = Path(__file__).parents[2]
KNOWN = {"CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "SECURITY.md"}
KNOWN |= {"changelogs", "docs", "extensions", "inventories", "meta", "playbooks", "plugins", "roles"}


def test_it_holds_nothing_of_the_workshop(archive: Path) -> None:
    with tarfile.open(archive) as content:
        assert {Path(name).parts[0] for name in content.getnames()} <= KNOWN


def test_the_engine_has_the_version_of_the_archive() -> None:
    """A host has no galaxy.yml, so the library carries the version, and a release changes both."""
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"] == VERSION


def test_a_release_names_where_its_sources_are() -> None:
    """Galaxy servers ask for it, and galaxy.yml has none, because there is no public address."""
    for address in ("", "git.example.com/sovereign-epyc"):
        done = run_command("tools/release.sh", REPOSITORY=address)
        assert done.returncode == 1 and "make release REPOSITORY=https://" in done.stdout, done.stdout
        assert done.stdout.rstrip().endswith("No archive was built.")


@pytest.mark.slow
def test_a_galaxy_server_would_take_the_release(run: Callable[..., str], released: Path, tmp_path: Path) -> None:
    """What galaxy-importer says of the very archive that `make release` makes."""
    settings = {"GALAXY_IMPORTER_CONFIG": str(ROOT / "tools/galaxy-importer.cfg")}
    said = run("python", "-m", "galaxy_importer.main", str(released), cwd=tmp_path, env=settings)
    complaints = [line for line in said.splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert complaints == []
    assert "Importer processing completed successfully" in said


@pytest.mark.slow
@pytest.mark.everyday
def test_it_runs_from_anywhere(run: Callable[..., str], archive: Path, tmp_path: Path) -> None:
    """Installed alone, with an inventory elsewhere: every playbook and everything that it names is found."""
    collections, inventory = tmp_path / "collections", tmp_path / "inventory"
    run("ansible-galaxy", "collection", "install", "--offline", "-p", str(collections), str(archive), cwd=tmp_path)
    installed = collections / "ansible_collections/sovereign/epyc"
    shutil.copytree(installed / "inventories/example", inventory)
    playbooks = [f"sovereign.epyc.{path.stem}" for path in sorted(installed.glob("playbooks/*.yml"))]
    assert "sovereign.epyc.site" in playbooks
    only = {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    said = run("ansible-playbook", "--syntax-check", "-i", str(inventory), *playbooks, cwd=tmp_path, env=only)
    assert said.count("playbook: ") == len(playbooks)


def test_an_execution_environment_installs_it(run: Callable[..., str], archive: Path, tmp_path: Path) -> None:
    """The definition of install.md, beside the archive: the command of the Containerfile finds it in the context."""
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    (definition,) = re.findall(r"^```yaml\n(version: 3\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "execution-environment.yml").write_text(definition)
    shutil.copy2(archive, tmp_path)
    run("ansible-builder", "create", cwd=tmp_path)
    install = ("ansible-galaxy", "collection", "install", "--offline", "-r", "requirements.yml", "-p", "installed")
    run(*install, cwd=tmp_path / "context/_build")
    assert (tmp_path / "context/_build/installed/ansible_collections/sovereign/epyc/playbooks/site.yml").is_file()


@pytest.mark.parametrize("place", [0, -1], ids=["oldest", "newest"])
def test_the_engine_needs_nothing_but_python(
    run: Callable[..., str], installed: Path, pythons: dict[str, str], place: int
) -> None:
    """All of it but its doors for modules, on the oldest Python of a managed host that is here and on the newest."""
    folder = installed / "plugins/module_utils"
    files = {path.relative_to(installed.parents[2]).with_suffix("") for path in folder.rglob("*.py")}
    doors = {"_ansible", "_bmc", "_knob_module"}
    names = sorted(".".join(file.parts).removesuffix(".__init__") for file in files if file.name not in doors)
    assert len(names) > 50
    path = {"PYTHONPATH": str(installed.parents[2])}
    run(list(pythons.values())[place], "-S", "-c", f"import {', '.join(names)}", cwd=installed, env=path)
