# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A release: the same bytes each time, an archive that does what the page says, and what it leaves in the clone."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from tools.release.same_bytes import rewrite_archive

from .conftest import GIT_AUTHOR, copy_clone, make_release


def write_archive(path: Path, names: list[str], seconds: int) -> None:
    """Write an archive as ansible-galaxy does: its two lists and files in some order, with the time of the build."""
    files = json.dumps({"files": [{"name": name, "chksum_sha256": "0"} for name in names], "format": 1}).encode()
    manifest = {"file_manifest_file": {"name": "FILES.json", "chksum_sha256": sha256(files).hexdigest()}, "format": 1}
    contents = {"MANIFEST.json": json.dumps(manifest).encode(), "FILES.json": files}
    contents.update({name: name.encode() for name in names})
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid, member.mode = len(content), seconds, seconds % 7, 0o644
            archive.addfile(member, io.BytesIO(content))


def test_an_archive_is_the_same_whatever_the_time_and_the_order_of_the_disk(tmp_path: Path) -> None:
    names = [f"plugins/{letter}.py" for letter in "abcdefgh"]
    written = []
    for seed in (1, 2):
        path = tmp_path / f"{seed}.tar.gz"
        write_archive(path, random.Random(seed).sample(names, len(names)), 1_000_000 + seed)
        rewrite_archive(path, 2_000_000)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    with tarfile.open(tmp_path / "1.tar.gz") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        assert {member.mtime for member in archive} == {2_000_000}
    assert content["plugins/a.py"] == b"plugins/a.py"
    digest = json.loads(content["MANIFEST.json"])["file_manifest_file"]["chksum_sha256"]
    assert digest == sha256(content["FILES.json"]).hexdigest()
    assert gzip.decompress(written[0])[257:262] == b"ustar"


def file_digests(folder: Path) -> dict[str, str]:
    lines = (folder / "build/release/SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, dummy, name in (line.partition("  ") for line in lines)}


@pytest.mark.slow
def test_a_release_is_the_same_before_and_after_its_commit(
    run: Callable[..., str], tracked: list[Path], tmp_path: Path
) -> None:
    """The release itself installs its archive in an empty folder and plans with it; here nothing is left to do."""
    clone = tmp_path / "clone"
    copy_clone(tracked, clone)

    def git(*words: str, **environment: str) -> str:
        return run("git", *GIT_AUTHOR, *words, cwd=clone, env=environment)

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Before the release")
    said = make_release(run, clone)
    first = file_digests(clone)
    assert set(first) == {
        "CHANGELOG.md",
        f"sovereign-epyc-{VERSION}.tar.gz",
        f"sovereign-epyc-docs-{VERSION}.tar.gz",
    }
    assert "sovereign.epyc:1.0.0 was installed successfully" in said.replace(VERSION, "1.0.0")
    assert "Show the plan" in said and "localhost" in said.partition("PLAY RECAP")[2]
    changed = {line.split()[-1] for line in git("status", "--porcelain").splitlines()}
    assert changed <= {"CHANGELOG.md", "changelogs/changelog.yaml", "changelogs/interface.json"}
    assert json.loads((clone / "changelogs/interface.json").read_text())["version"] == VERSION
    releases = yaml.safe_load((clone / "changelogs/changelog.yaml").read_text())["releases"]
    assert list(releases)[-1] == VERSION
    assert f"v{VERSION.replace('.', chr(92) + '.')}" in (clone / "CHANGELOG.md").read_text()
    git("add", "--all")
    git("commit", "--quiet", "--message", "The release", GIT_COMMITTER_DATE="2030-01-01T00:00:00Z")
    make_release(run, clone)
    assert file_digests(clone) == first
    assert git("status", "--porcelain") == ""
