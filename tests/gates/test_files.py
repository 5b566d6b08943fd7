# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules for every file of the clone: it names its licence, and it depends on no particular machine."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.selection import TIERS

ROOT = Path(__file__).parents[2]

# Generated, or the licence itself. JSON cannot carry a comment.
BARE = {Path("LICENSE"), Path("CHANGELOG.md"), Path("changelogs/changelog.yaml")}

# Written with @ for the dot, and with a space, so that this file does not match its own patterns.
HOSTS = (
    "pypi@org pythonhosted@org npmjs@org galaxy@ansible@com crates@io rubygems@org golang@org docker@io quay@io "
    "ghcr@io deb@debian@org security@debian@org snapshot@debian@org ftp@debian@org archive@ubuntu@com ports@ubuntu@com "
    "ci-files@testing@ansible@com"
)
PATHS = ("work/", "opt/pypi", "opt/wheels", "root/.pyenv", "root/.cache", r"home/[a-z]+/")
FORBIDDEN = re.compile(
    "|".join(
        [rf"(?<![\w-]){re.escape(host.replace('@', '.'))}\b" for host in HOSTS.split()]
        + [rf"(?<![\w.~)}}/-])/{path}" for path in PATHS]
    )
)

#: A folder of the product has at most this many files beside its folders, so that one look finds a file.
MOST_FILES = 16
#: Ansible finds plugins in these folders only.
LAID_OUT_BY_ANSIBLE = {f"plugins/{kind}" for kind in ("modules", "action", "callback", "filter", "lookup")}


def read_texts(tracked: list[Path]) -> Iterator[tuple[Path, str]]:
    for name in tracked:
        if (ROOT / name).is_symlink():
            continue
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_licence_header(tracked: list[Path]) -> None:
    missing = [
        str(name)
        for name, text in read_texts(tracked)
        if text.strip() and name not in BARE and name.suffix != ".json"
        if not {"SPDX-License-Identifier: GPL-3.0-or-later", "Copyright (c) 2026, the sovereign.epyc authors"}
        <= {line.strip('#/;*{}<>!-" .') for line in text.splitlines()[:8]}
    ]
    assert not missing, "no licence header in the first eight lines of:\n" + "\n".join(missing)


def test_no_foreign_machine(tracked: list[Path]) -> None:
    found = [
        f"{name}:{number}: {match[0]}"
        for name, text in read_texts(tracked)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := FORBIDDEN.search(line))
    ]
    assert not found, "a registry host or a path of one machine in:\n" + "\n".join(found)


def test_programs_may_be_executed(tracked: list[Path]) -> None:
    """A file that begins with `#!` is run by its path; only Ansible reads modules itself, and asks no permission."""
    refused = [
        str(name)
        for name, text in read_texts(tracked)
        if text.startswith("#!") and not name.is_relative_to("plugins/modules") and not os.access(ROOT / name, os.X_OK)
    ]
    assert not refused, f"not executable: {refused}"


def test_no_folder_of_the_product_has_too_many_files(tracked: list[Path]) -> None:
    product = [name for name in tracked if name.parts[0] in ("plugins", "lab", "tools") and (ROOT / name).is_file()]
    counts = Counter(str(name.parent) for name in product)
    large = {folder: count for folder, count in counts.items() if count > MOST_FILES}
    excess = large.keys() - LAID_OUT_BY_ANSIBLE
    assert not excess, f"more than {MOST_FILES} files, which belong into folders by subject: {sorted(excess)}"


@pytest.mark.parametrize("tier", TIERS)
def test_tier_is_there(tracked: list[Path], tier: str) -> None:
    """pytest passes over a folder that is missing or empty; a whole tier must not vanish unnoticed."""
    assert any(name.is_relative_to(tier) and name.match("test_*.py") for name in tracked), f"no test in {tier}"


def test_skus_have_the_same_keys() -> None:
    """The variables of all SKUs have the same names, so a reader needs to learn them once."""
    files = sorted(ROOT.glob("inventories/example/group_vars/epyc*.yml"))
    keys = {file.stem: set(re.findall(r"^(\w+):", file.read_text(), re.MULTILINE)) for file in files}
    assert len(keys) > 1
    first = next(iter(keys.values()))
    assert {sku: found ^ first for sku, found in keys.items() if found != first} == {}
