# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of the library and of the controller's half import from lower ones only, and each says what it is.

The order of the packages is in two lists of CONTRIBUTING.md, so that it is what people read. An import counts wherever
it stands: at the top, for types only, or inside a function. Nothing imports in a circle.
"""

from __future__ import annotations

import ast
import pkgutil
import re
import shutil
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = "ansible_collections.sovereign.epyc.plugins"


class Tree(NamedTuple):
    """A folder of Python packages, and the first line of its list in CONTRIBUTING.md."""

    folder: Path
    prefix: str
    first_line: str


ENGINE = Tree(ROOT / "plugins/module_utils", f"{PLUGINS}.module_utils", "_knob_module")
CONTROLLER = Tree(ROOT / "plugins/plugin_utils", f"{PLUGINS}.plugin_utils", "_preflight")
TREES = (ENGINE, CONTROLLER)
#: Folders that pytest or git pass over wherever they are, so that what is in them is neither tested nor kept.
PASSED_OVER = {"build", "dist", "venv", "node_modules"}


def listed_names(tree: Tree) -> list[str]:
    """Return the packages and modules of a list from top to bottom; an indented line belongs to the line above it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = text.partition(f"```text\n{tree.first_line}")[2].partition("```")[0]
    names, parent = [tree.first_line], ""
    for line in block.splitlines()[1:]:
        name = line.split()[0].rstrip("/")
        parent = parent if line[0] == " " else name
        names.append(name if parent == name else f"{parent}.{name}")
    return names


def list_modules(root: Path) -> dict[str, Path]:
    """Return the files of a tree by their dotted names; a package has the name of its folder."""
    found = {path.relative_to(root).with_suffix(""): path for path in root.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in found.items()}


def list_imports(name: str, there: dict[str, Path], prefix: str) -> Iterator[str]:
    """Yield the modules of the same tree that a module imports."""
    package = f"{prefix}.{name}" if there[name].name == "__init__.py" else f"{prefix}.{name}".rpartition(".")[0]
    for node in ast.walk(ast.parse(there[name].read_text())):
        if isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for full in names:
            inside = [full[len(prefix) + 1 :], full[len(prefix) + 1 :].rpartition(".")[0]]
            yield from [one for one in inside if full.startswith(f"{prefix}.") and one in there][:1]


def upward_imports(tree: Tree) -> list[str]:
    """Return the imports that do not go down; within one line of the list a module may import another."""
    names, there = listed_names(tree), list_modules(tree.folder)

    def place(module: str) -> int:
        parts = module.split(".")
        return max(names.index(name) for name in (".".join(parts[:2]), parts[0]) if name in names)

    pairs = [(module, imported) for module in there for imported in list_imports(module, there, tree.prefix)]
    return [f"{module} imports {imported}" for module, imported in pairs if place(module) > place(imported)]


def find_import_circle(root: Path, prefix: str) -> list[str]:
    """Return modules that import each other in a circle, an empty list where there are none."""
    there = list_modules(root)
    try:
        TopologicalSorter({name: list(list_imports(name, there, prefix)) for name in there}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def packages_without_sentence(root: Path) -> list[str]:
    """Return the packages whose __init__.py is not one sentence, and folders that no tool would look into."""
    folders = {path.parent for path in root.rglob("*.py")} - {root}
    inits = {folder: folder / "__init__.py" for folder in folders}
    docs = {
        folder: ast.get_docstring(ast.parse(init.read_text())) if init.exists() else ""
        for folder, init in inits.items()
    }
    bad = [folder for folder, doc in docs.items() if not re.fullmatch(r"[A-Z_a-z].*\.", doc or "")]
    return sorted(
        str(folder.relative_to(root)) for folder in {*bad, *(one for one in folders if one.name in PASSED_OVER)}
    )


@pytest.mark.parametrize("tree", TREES)
def test_imports_go_down(tree: Tree) -> None:
    assert upward_imports(tree) == []


@pytest.mark.parametrize("tree", TREES)
def test_the_list_has_every_package_and_only_those(tree: Tree) -> None:
    there, names = list_modules(tree.folder), listed_names(tree)
    assert [name for name in names if name not in there] == []
    assert {name.split(".")[0] for name in there} == {name.split(".")[0] for name in names}


def test_the_walk_names_what_is_there() -> None:
    """A path in it may leave out the folder of the library; what stands in parentheses is in the file before it."""
    walk = (ROOT / "CONTRIBUTING.md").read_text().partition("**From a role's variable")[2].partition("\n\n`TYPE_")[0]
    names = re.findall(r"`([\w/]+\.(?:py|yml))`(?: \(`(\w+)`\))?", walk)
    assert len(names) >= 10
    for name, inside in names:
        path = ROOT / name if name.startswith(("roles/", "plugins/")) else ENGINE.folder / name
        assert path.is_file(), name
        assert f"def {inside}(" in path.read_text() if inside else True, f"{name} has no {inside}"
    assert "epyc_numa_thp: madvise" in (ROOT / "roles/epyc_numa/defaults/main.yml").read_text()


def test_nothing_imports_in_a_circle() -> None:
    for tree in TREES:
        assert find_import_circle(tree.folder, tree.prefix) == []
    assert find_import_circle(ROOT / "lab/vepyc", "vepyc") == []


def test_programs_in_texts_import_what_is_there(tracked: list[Path]) -> None:
    """A program that runs on a host is a text here, as in a unit or a benchmark, which neither mypy nor ruff reads."""
    written = re.compile(r"from sovereign_epyc((?:\.\w+)*) import (\w+)")
    texts = {path: (ROOT / path).read_text() for path in tracked if path.suffix == ".py" and (ROOT / path).is_file()}
    found = {(path, *names) for path, text in texts.items() for names in written.findall(text)}
    assert len(found) > 4
    for path, package, name in found:
        try:
            pkgutil.resolve_name(f"{ENGINE.prefix}{package}.{name}")
        except (AttributeError, ImportError) as error:
            pytest.fail(f"{path}: {error}")


def test_packages_say_what_they_are() -> None:
    for tree in TREES:
        assert packages_without_sentence(tree.folder) == []


def upward_for_types(copy: Path) -> bool:
    append_text(copy / "_io/command.py", "if TYPE_CHECKING:\n    from .._knobs.protocol.knob import Knob\n")
    return upward_imports(ENGINE._replace(folder=copy)) == ["_io.command imports _knobs.protocol.knob"]


def upward_in_a_package(copy: Path) -> bool:
    append_text(copy / "_knobs/protocol/ledger.py", "def later():\n    from .. import catalogue\n")
    return upward_imports(ENGINE._replace(folder=copy)) == ["_knobs.protocol.ledger imports _knobs.catalogue"]


def round_about(copy: Path) -> bool:
    append_text(copy / "_notation/sizes.py", "from .cache_masks import GRAMMAR\n")
    return (
        set(find_import_circle(copy, ENGINE.prefix)) == {"_notation.sizes", "_notation.cache_masks"}
        and upward_imports(ENGINE._replace(folder=copy)) == []
    )


def without_a_sentence(copy: Path) -> bool:
    (copy / "_models/__init__.py").write_text("")
    (copy / "_host/__init__.py").unlink()
    return packages_without_sentence(copy) == ["_host", "_models"]


def append_text(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n{text}")


@pytest.mark.parametrize("planted", [upward_for_types, upward_in_a_package, round_about, without_a_sentence])
def test_what_is_planted_is_found(planted: Callable[[Path], bool], tmp_path: Path) -> None:
    shutil.copytree(ENGINE.folder, tmp_path / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    assert planted(tmp_path / "engine")


def test_an_upward_import_of_the_controllers_half_is_found(tmp_path: Path) -> None:
    copy = CONTROLLER._replace(folder=tmp_path / "controller")
    shutil.copytree(CONTROLLER.folder, copy.folder, ignore=shutil.ignore_patterns("__pycache__"))
    append_text(copy.folder / "_pages/html.py", f"from {CONTROLLER.prefix}._drift_report.wording import summary\n")
    assert upward_imports(copy) == ["_pages.html imports _drift_report.wording"]
