# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make site` and `make ask` say when they cannot do what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import site
from vepyc import play


def said(home: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run the tool with a cache of its own, in which it may not begin to build; return its exit code and its lines."""
    done = play.run("tools/run.sh", "tools/site.py", *arguments, VEPYC_HOME=str(home))
    assert not (home / "images").exists()
    return done.returncode, done.stdout.strip().splitlines()


def test_a_sku_that_there_is_not(tmp_path: Path) -> None:
    code, lines = said(tmp_path, "epyc9999")
    assert (code, lines) == (
        1,
        [
            "[1/7] boot a virtual EPYC",
            "vepyc: there is no shape 'epyc9999'; the shapes are small, smt, epyc9754, epyc9654, epyc9354, epyc7543x2,"
            " epyc9655",
            "site: 'boot a virtual EPYC' failed with exit code 1; run it again alone:"
            " lab/bin/vepyc up epyc9999 --llama",
        ],
    )


def test_there_is_nobody_to_ask(tmp_path: Path) -> None:
    code, lines = said(tmp_path, "epyc9754", "--ask", "Who is there?")
    assert (code, lines[-1]) == (1, "site: there is nobody to ask; start one: make site SKU=epyc9754")


def test_a_long_silence_is_broken_and_the_exit_code_kept(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(site, "SILENCE", 0.2)
    assert site.run(["sh", "-c", "echo first; sleep 0.5; echo last; exit 7"], "wait") == (7, "first\nlast\n")
    assert b"... wait: 0 s" in capfdbinary.readouterr().out
