# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the gates share: running an outside tool, and the collection as it ships."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tools.pictures.chromium import Page
from vepyc import playbook_runs, venvs

ROOT = Path(__file__).parents[2]
TIMEOUT = 1800

Run = Callable[..., str]
#: Who commits in clones that a test makes.
GIT_AUTHOR = ("-c", "user.name=Test", "-c", "user.email=test@example.com")


#: For every outside tool.
VARIABLES = {"PATH": venvs.program_search_path(), "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "PY_COLORS": "0"}


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a command with no terminal, fail the test with all its output if it fails, and return that output."""

    def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
        line = f"$ {' '.join(command)}"
        variables = {**VARIABLES, **(env or {})}
        if not shutil.which(command[0], path=variables["PATH"]):
            pytest.fail(f"{line}\n{command[0]} is not installed: run `make setup`", pytrace=False)
        try:
            done = playbook_runs.run_command(*command, cwd=cwd, timeout=TIMEOUT, **variables)
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode(errors="replace") if error.stdout else ""
            pytest.fail(f"{line}\n{output}\nstill running after {TIMEOUT} s", pytrace=False)
        if done.returncode:
            pytest.fail(f"{line}\n{done.stdout}\nexit code {done.returncode}", pytrace=False)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    """One Chromium for all pages."""
    with Page() as page:
        yield page


def open_page(browser: Page, file: Path, text: str) -> Page:
    """Write a page to a file and open it, light and on a screen, whatever the test before this one did."""
    file.write_text(text, encoding="utf-8")
    browser.emulate_dark_preference(False)
    browser.emulate_print(False)
    browser.open_file(file)
    return browser


@pytest.fixture(scope="session")
def pythons() -> dict[str, str]:
    """Return where the Pythons are that work here, of those that a managed host may have, oldest first."""
    return venvs.find_pythons()


@pytest.fixture(scope="session")
def tracked(run: Run) -> list[Path]:
    """Return the files of the clone, relative to its root: those in git and those about to be."""
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return [Path(name) for name in names if name and os.path.lexists(ROOT / name)]


@pytest.fixture(scope="session")
def shipped(tracked: list[Path]) -> Iterator[Path]:
    """Copy the collection, with its unit tests, to a path that ansible-test accepts: it looks at the real path.

    The copy stays in the cache, because ansible-test keeps the environment it builds for itself under `tests/output`.
    """
    developer = (
        "lab",
        "tools",
        "tests/fixtures",
        "tests/gates",
        "tests/harness",
        "tests/lab",
        "tests/molecule",
        "tests/replay",
        "tests/service",
        "tests/site",
        "extensions",
        "conftest.py",
        ".collections",
        "collections",
        "playbooks/collections",
        ".ci",
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sovereign-epyc")
    cache = Path(os.environ.get("SOVEREIGN_EPYC_CACHE") or cache, "ansible-test", sha256(bytes(ROOT)).hexdigest()[:16])
    root = cache / "ansible_collections" / "sovereign" / "epyc"
    root.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for old in [*root.iterdir(), *(root / "tests").glob("*")]:
            if old not in (root / "tests", root / "tests/output"):
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        for name in tracked:
            if not any(name.is_relative_to(folder) for folder in developer):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        yield root


def build_archive(run: Run, tree: Path, folder: Path) -> Path:
    """Return the archive that users install, made of this tree."""
    run("ansible-galaxy", "collection", "build", "--output-path", str(folder), str(tree))
    (archive,) = folder.glob("sovereign-epyc-*.tar.gz")
    return archive


def copy_clone(tracked: list[Path], folder: Path) -> None:
    """Copy the files of this clone, with its tools and the cheapest site of documents there is."""
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / ".venv").symlink_to((ROOT / ".venv").resolve())
    (folder / "build/docs/html").mkdir(parents=True)
    (folder / "build/docs/html/index.html").write_text("<!doctype html>\n")


def make_release(run: Run, clone: Path) -> str:
    """Make the release of a clone; return what was printed."""
    address = {"REPOSITORY": "https://git.example.com/sovereign-epyc"}
    return run("tools/run.sh", "tools/release.sh", cwd=clone, env=address)


@pytest.fixture(scope="session")
def released(run: Run, tracked: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a release of these sources, by `tools/release.sh` as `make release` runs it."""
    clone = tmp_path_factory.mktemp("release") / "clone"
    copy_clone(tracked, clone)
    for words in (("init", "--quiet"), ("add", "--all"), (*GIT_AUTHOR, "commit", "--quiet", "--message", "Release")):
        run("git", *words, cwd=clone)
    make_release(run, clone)
    (archive,) = clone.glob("build/release/sovereign-epyc-[0-9]*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def archive(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of this clone, with whatever lies about in it."""
    return build_archive(run, ROOT, tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="session")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection as users install it, in a folder that Python can import it from."""
    root = tmp_path_factory.mktemp("installed") / "ansible_collections/sovereign/epyc"
    with tarfile.open(archive) as content:
        content.extractall(root, filter="data")
    return root
