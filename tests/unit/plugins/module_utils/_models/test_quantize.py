# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a smaller file is made of a model, what is left where that fails, and what is refused.

The program is a stand-in that writes a header, without walls; tests/service/test_llama_speculation.py has the real one
and real walls.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._models import quantize
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

ROWS = 64
F16, Q8_0 = 1, 8
#: Writes the file that is prepared for the type, and its words beside it.
PROGRAM = """#!{python}
import sys
from pathlib import Path
words = sys.argv[1:]
Path({here!r}, "words").write_text(" ".join(words))
source, target, kind = [word for word in words if not word.isdecimal()][-3:]
made = Path({here!r}, kind)
if not made.exists():
    Path(target).write_bytes(b"GGUF half")
    sys.exit("llama_model_quantize: error: something failed")
Path(target).write_bytes(made.read_bytes())
"""


def model(path: Path, kind: int, file_type: int, matrix: str = "", rows: int = ROWS) -> Path:
    more = [ggufs.entry("general.file_type", "I", file_type)]
    more += [ggufs.entry("quantize.imatrix.file", "8", matrix.encode())] if matrix else []
    size = 4096 * rows * 2 if kind == F16 else 4096 // 32 * 34 * rows
    tensors = [ggufs.tensor("output.weight", (4096, rows), kind, 0)]
    path.write_bytes(ggufs.gguf(ggufs.model(more=more, block_count=1), tensors, size))
    return path


class Sandbox:
    """Runs a program without walls, and keeps what was to be its walls; ``meanwhile`` is called with its folder."""

    def __init__(self) -> None:
        self.walls: list[str] = []
        self.meanwhile: Callable[[Path], object] = lambda folder: None

    def attempt(self, walls: list[str], words: list[str], seconds: float | None) -> CommandResult:
        self.walls = walls
        bound = next(line for line in walls if line.startswith("BindPaths="))
        folder = bound[len("BindPaths=") : -len(f":{quantize.OUTPUT}")]
        done = command.try_command([word.replace(quantize.OUTPUT, folder) for word in words], seconds)
        self.meanwhile(Path(folder))
        return done


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    one = Sandbox()
    monkeypatch.setattr(quantize.sandbox, "run_in_sandbox", one.attempt)
    return one


@pytest.fixture
def source(tmp_path: Path, sandbox: Sandbox) -> Path:
    """A model in F16, and a program that can make Q8_0 of it and nothing else."""
    tmp_path.chmod(0o755)
    model(tmp_path / "Q8_0", Q8_0, 7)
    program = tmp_path / "llama-quantize"
    program.write_text(PROGRAM.format(python=sys.executable, here=str(tmp_path)))
    program.chmod(0o755)
    path = model(tmp_path / "model-f16.gguf", F16, 1)
    path.chmod(0o644)
    return path


def asked(here: Path, kind: str = "Q8_0", check: bool = False, **more: Any) -> dict[str, Any]:
    program = here.with_name("llama-quantize")
    options = {"source": str(here), "path": str(here.with_name("new.gguf")), "type": kind, "binary": str(program)}
    return quantize.ensure_quantized_file({"reserve": "0MiB", **options, **more}, None, check)


def words(source: Path) -> str:
    return source.with_name("words").read_text()


def test_it_is_made_once(source: Path) -> None:
    new = source.with_name("new.gguf")
    would = asked(source, check=True)
    assert (would["changed"], would["size"], new.exists()) == (True, None, False)
    done = asked(source)
    assert done["changed"] and done["diff"] == would["diff"] and done["size"] == new.stat().st_size
    assert done["diff"]["after"] == {f"model_quantize:{new}": f"Q8_0 of {source}"}
    assert new.stat().st_mode & 0o777 == 0o644
    assert words(source) == f"{source} {source.with_name('.new.gguf.part')}/new/new.gguf Q8_0"
    again = asked(source)
    assert (again["changed"], again["diff"]) == (False, {"before": {}, "after": {}})


def test_it_is_made_anew_when_its_source_is_newer_or_another_is_there(source: Path) -> None:
    new = source.with_name("new.gguf")
    asked(source)
    os.utime(source)
    os.utime(new, ns=(0, source.stat().st_mtime_ns - 1))
    assert asked(source, check=True)["changed"]
    asked(source)
    model(new, Q8_0, 7, rows=32)
    assert asked(source, check=True)["changed"]
    new.write_text("no model")
    assert asked(source)["changed"] and not asked(source)["changed"]


def test_a_matrix_is_used_and_remembered(source: Path) -> None:
    matrix = source.with_name("texts.imatrix")
    matrix.touch()
    model(source.with_name("Q8_0"), Q8_0, 7, str(matrix))
    assert asked(source, imatrix=str(matrix), threads=3)["changed"]
    assert words(source).startswith(f"--imatrix {matrix} ") and words(source).endswith(" Q8_0 3")
    assert not asked(source, imatrix=str(matrix))["changed"]
    assert asked(source, check=True)["changed"]


def test_a_failure_leaves_nothing_and_what_was_there(source: Path) -> None:
    new = source.with_name("new.gguf")
    asked(source)
    before = new.read_bytes()
    with pytest.raises(TuningError, match=r"cannot be made Q2_K: .* code 1\. It says: .*something failed\. Nothing"):
        asked(source, "Q2_K")
    assert new.read_bytes() == before and not source.with_name(".new.gguf.part").exists()
    model(source.with_name("Q6_K"), Q8_0, 7)
    with pytest.raises(TuningError, match="made no Q6_K of"):
        asked(source, "Q6_K")
    assert not source.with_name(".new.gguf.part").exists()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"kind": "Q9"}, "type is 'Q9'; say one of Q2_K, "),
        ({"binary": "/nowhere"}, "there is no program /nowhere. llama_build makes it"),
        ({"imatrix": "/nowhere"}, "there is no file /nowhere. Make it with llama-imatrix"),
        ({"path": "/nowhere/new.gguf"}, "there is no folder /nowhere. Make it first"),
        ({"reserve": "900000GiB"}, "does not fit"),
        ({"threads": "many"}, "threads: 'many' is no whole number"),
    ],
)
def test_what_is_refused(source: Path, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        asked(source, **more)
    assert not source.with_name("new.gguf").exists()


def test_a_source_that_is_quantized_or_the_target_itself(source: Path) -> None:
    small = model(source.with_name("small.gguf"), Q8_0, 7)
    with pytest.raises(BadRequest, match=r"is quantized itself \(Q8_0\), and its lost precision stays lost"):
        asked(source, source=str(small))
    assert asked(source, source=str(small), requantize=True)["changed"]
    assert words(source).startswith("--allow-requantize ")
    with pytest.raises(BadRequest, match="the source itself, which would be lost"):
        asked(source, path=str(source))


# The folder of somebody else


def test_the_program_is_never_root(source: Path, sandbox: Sandbox) -> None:
    """Red for a run without walls: a GGUF from elsewhere may make the program do anything."""
    asked(source)
    assert {"DynamicUser=yes", "NoNewPrivileges=yes", "PrivateNetwork=yes"} < set(sandbox.walls)
    source.with_name("new.gguf").unlink()
    source.chmod(0o640)
    os.chown(source, 12, 34)
    asked(source)
    assert sandbox.walls[:2] == ["User=12", "Group=34"]
    made = source.with_name("new.gguf").stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (12, 34, 0o640)
    source.with_name("new.gguf").unlink()
    os.chown(source, 0, 0)
    with pytest.raises(BadRequest, match=r"model-f16\.gguf cannot be read by llama-quantize, which never runs as root"):
        asked(source)


@pytest.mark.parametrize("kind", ["link", "second name"])
def test_a_link_that_the_program_made_is_not_followed(kind: str, source: Path, sandbox: Sandbox) -> None:
    secret = source.with_name("shadow")
    secret.write_bytes(source.with_name("Q8_0").read_bytes())
    secret.chmod(0o600)

    def put_it_there(folder: Path) -> None:
        (folder / "new.gguf").unlink()
        if kind == "link":
            (folder / "new.gguf").symlink_to(secret)
        else:
            os.link(secret, folder / "new.gguf")

    sandbox.meanwhile = put_it_there
    with pytest.raises(TuningError, match=r"new\.gguf cannot be made: .* Nothing is left of it"):
        asked(source)
    os.chown(source, 65534, 65534)
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)
    assert not source.with_name("new.gguf").exists() and not source.with_name(".new.gguf.part").exists()


def test_what_the_owner_of_the_folder_does_meanwhile_hands_nothing_over(source: Path, sandbox: Sandbox) -> None:
    """He can rename the folder that the program writes into, and put one of his own in its place."""
    secret, part = source.with_name("shadow"), source.with_name(".new.gguf.part")
    secret.write_text("root:secret")
    secret.chmod(0o600)
    os.chown(source, 65534, 65534)

    def swap(folder: Path) -> None:
        assert stat.S_IMODE(part.stat().st_mode) == 0o700 and folder.parent == part
        part.rename(part.with_name("away"))
        (part / "new").mkdir(parents=True)
        (part / "new/new.gguf").symlink_to(secret)
        os.chown(part, 65534, 65534)

    sandbox.meanwhile = swap
    with pytest.raises(TuningError, match="somebody else has put a folder there"):
        asked(source)
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)
    assert secret.read_text() == "root:secret"


def test_what_a_killed_run_left_is_in_nobodys_way(source: Path) -> None:
    left = source.with_name(".new.gguf.part")
    (left / "new").mkdir(mode=0o700, parents=True)
    (left / "new/new.gguf").write_text("half")
    assert asked(source)["changed"] and not left.exists()
    source.with_name("new.gguf").unlink()
    left.write_text("half, of an earlier version")
    assert asked(source)["changed"] and not left.exists()
