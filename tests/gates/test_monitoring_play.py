# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_monitoring in real runs on this machine: what it removes is what it wrote, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import plays

pytestmark = pytest.mark.slow

Play = Callable[..., str]
PLAYBOOK = "- hosts: all\n  gather_facts: false\n  roles: [sovereign.epyc.epyc_monitoring]\n"
#: Has tasks find no program.
NO_PROGRAMS = "  environment: {PATH: /nowhere}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "prometheus"


@pytest.fixture
def play(tmp_path: Path, folder: Path) -> Play:
    """Run the role, and return what Ansible says."""
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAYBOOK)

    def play(*arguments: str) -> str:
        options = ("-e", f"epyc_monitoring_folder={folder}", "-e", "epyc_monitoring_service=", *arguments)
        done = plays.run(tmp_path, ["one"], [], str(playbook), *options, SOVEREIGN_EPYC_DRIFT_EXIT_CODE="false")
        assert done.returncode == 0, done.stdout
        return done.stdout

    return play


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_the_role_wrote_is_removed_with_its_folder(play: Play, folder: Path) -> None:
    play("-e", "epyc_monitoring_page_url=http://127.0.0.1:9090")
    assert {"scrape.yml", "serving.html", "targets/llama.json", "dashboards/fleet.json"} <= list_files(folder)
    written = list_files(folder)
    play("-e", "epyc_monitoring_state=absent", "--check")
    assert list_files(folder) == written
    play("-e", "epyc_monitoring_state=absent")
    assert not folder.exists()
    assert "changed=0" in play("-e", "epyc_monitoring_state=absent")


@pytest.mark.everyday
def test_files_of_others_stay(play: Play, folder: Path) -> None:
    theirs = {"prometheus.yml", "dashboards/theirs.json", "rules/x.rules.yml"}
    for name in theirs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    play()
    assert theirs < list_files(folder)
    play("-e", "epyc_monitoring_state=absent")
    assert list_files(folder) == theirs and not (folder / "targets").exists()


def test_a_folder_in_which_the_role_never_wrote_is_left_as_it_is(play: Play, folder: Path) -> None:
    """These names are common, so they prove nothing; that of the rules is the collection's own."""
    (folder / "targets").mkdir(parents=True)
    (folder / "scrape.yml").write_text("theirs")
    assert "changed=0" in play("-e", "epyc_monitoring_state=absent")
    assert list_files(folder) == {"scrape.yml"} and (folder / "targets").is_dir()


@pytest.mark.everyday
@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_a_host_without_promtool_is_refused_before_anything_is_written(
    tmp_path: Path, folder: Path, arguments: tuple[str, ...]
) -> None:
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAYBOOK + NO_PROGRAMS)
    options = ("-e", f"epyc_monitoring_folder={folder}", *arguments)
    done = plays.run(tmp_path, ["one"], [], str(playbook), *options, SOVEREIGN_EPYC_DRIFT_EXIT_CODE="false")
    assert done.returncode == 2, done.stdout
    said = " ".join(done.stdout.split())
    assert "one has no promtool" in said and "with the package prometheus" in said
    assert "changed=0" in said and not folder.exists()
