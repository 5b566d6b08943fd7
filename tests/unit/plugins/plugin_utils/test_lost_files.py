# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of the controller a run would lose, by where they are and what starts ansible-playbook."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.errors import AnsibleError

from ansible_collections.sovereign.epyc.plugins.lookup import lost_file_refusal
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kept_files import lost_files


def reason_in_job(file: Path, folder: Path, **environment: str) -> str:
    """Return the reason in a job of ansible-runner with this folder."""
    variables = {lost_files.ARTIFACTS_VARIABLE: str(folder / "artifacts/7"), **environment}
    return lost_files.lost_file_reason(str(file), variables)


def test_a_run_without_a_job_loses_no_file(tmp_path: Path) -> None:
    assert lost_files.lost_file_reason(str(tmp_path / "new/folder/file.json"), {}) == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    reason = lost_files.lost_file_reason(str(tmp_path / "file/one.json"), {})
    assert reason == f"cannot be written, because {tmp_path}/file is no folder"
    # Root may write to any folder but those of a read-only file system.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    reason = lost_files.lost_file_reason(str(tmp_path / "new/one.json"), {})
    assert reason == f"cannot be written, because {tmp_path} is read-only"


def test_awx_deletes_the_folder_of_a_job(tmp_path: Path) -> None:
    job = tmp_path / "job"
    awx = {lost_files.AWX_VARIABLE: "/tmp/awx_7_x"}
    job.mkdir()
    reason = reason_in_job(job / "inventory/.bios/one.json", job, **awx)
    assert reason == f"would be in {job}, which AWX deletes when this job ends"
    assert reason_in_job(tmp_path / "one.json", job, **awx) == ""
    assert reason_in_job(job / "inventory/.bios/one.json", job) == "", "the folder of a user of ansible-runner stays"


def test_a_folder_of_the_container_alone_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *dummy: True)
    lost = reason_in_job(Path("/nowhere/one.json"), Path("/runner"))
    assert lost == "would be in the container of this job, which is deleted when the job ends"
    # A file system of its own, as a folder has that is mounted into a container.
    assert reason_in_job(Path("/dev/shm/one.json"), Path("/runner")) == ""


def test_the_lookup_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = lost_file_refusal.LookupModule()
    monkeypatch.setattr(lookup, "set_options", lambda **dummy: None)
    monkeypatch.setattr(lookup, "get_option", {"variable": "epyc_tune_inventory"}.get)
    (tmp_path / "file").write_text("")
    (refusal,) = lookup.run([f"{tmp_path}/file/x"], {})
    assert refusal.startswith(f"{tmp_path}/file/x cannot be written") and "Set epyc_tune_inventory to" in refusal
    assert lookup.run([f"{tmp_path}/x"], {}) == [""]
    with pytest.raises(AnsibleError, match="takes one path"):
        lookup.run([], {})
