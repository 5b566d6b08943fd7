# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive that users install: what is in it, whether a Galaxy server would take it, and that it runs anywhere."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KNOWN = {"CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "changelogs"}
KNOWN |= {"docs", "extensions", "inventories", "meta", "playbooks", "plugins", "roles"}


def build(run: Callable[..., str], tree: Path, folder: Path) -> Path:
    run("ansible-galaxy", "collection", "build", "--output-path", str(folder), str(tree))
    (archive,) = folder.glob("sovereign-epyc-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def archive(run: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of this clone, built with untracked files in it."""
    return build(run, ROOT, tmp_path_factory.mktemp("archive"))


def test_it_holds_nothing_of_the_workshop(archive: Path) -> None:
    with tarfile.open(archive) as content:
        assert {Path(name).parts[0] for name in content.getnames()} <= KNOWN


def test_a_galaxy_server_would_take_it(run: Callable[..., str], tracked: list[Path], tmp_path: Path) -> None:
    """galaxy-importer insists on the address of a repository, and there is no public one yet."""
    tree = tmp_path / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    with (tree / "galaxy.yml").open("a") as metadata:
        metadata.write("repository: https://git.example.com/sovereign-epyc\n")
    settings = {"GALAXY_IMPORTER_CONFIG": str(ROOT / "tools/galaxy-importer.cfg")}
    said = run("python", "-m", "galaxy_importer.main", str(build(run, tree, tmp_path)), cwd=tmp_path, env=settings)
    complaints = [line for line in said.splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert complaints == []
    assert "Importer processing completed successfully" in said


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
