# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama-server from Debian's packages: its libraries on the C library of the guests, and what is done without them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from vepyc import VepycError
from vepyc.llama import debian_build, delivery


def build_library(folder: Path, name: str, code: str, *more: str) -> Path:
    """A shared library of this assembly."""
    made = folder / name
    subprocess.run(["as", "--64", "-o", f"{made}.o", "-"], input=code, text=True, check=True)
    subprocess.run(["ld", "-shared", "-soname", name, *more, "-o", str(made), f"{made}.o"], check=True)
    return made


def build_calling_library(folder: Path, function: str) -> Path:
    """A library that calls a function which the C library got in its version 2.43, and one that it always had."""
    exports = f"GLIBC_2.2.5 {{ global: cosf; }}; GLIBC_2.43 {{ global: {function}; local: *; }};"
    (folder / "versions").write_text(exports)
    code = "".join(f".globl {name}\n.type {name}, @function\n{name}: ret\n" for name in ("cosf", function))
    math = build_library(folder, "libm.so.6", code, "--version-script", str(folder / "versions"))
    return build_library(folder, "libcaller.so", f"call cosf@PLT\ncall {function}@PLT\n", str(math))


def required_versions(file: Path) -> set[tuple[str, str]]:
    """Each function that a library calls, with the version that it asks for."""
    listed = subprocess.run(["objdump", "-T", str(file)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\((GLIBC_[\d.]+)\)\s+(\S+)", listed))


def test_a_newer_version_of_the_same_function_is_replaced_by_the_oldest(tmp_path: Path) -> None:
    file = build_calling_library(tmp_path, "sqrtf")
    assert required_versions(file) == {("GLIBC_2.2.5", "cosf"), ("GLIBC_2.43", "sqrtf")}
    debian_build.require_oldest_glibc_versions(file)
    assert required_versions(file) == {("GLIBC_2.2.5", "cosf"), ("GLIBC_2.2.5", "sqrtf")}
    shown = subprocess.run(["objdump", "-p", str(file)], capture_output=True, text=True, check=True).stdout
    assert "GLIBC_2.43" not in shown


def test_a_function_that_guests_do_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VepycError, match=r"libcaller.so .* needs a newer C library than guests have: \['newf'\]"):
        debian_build.require_oldest_glibc_versions(build_calling_library(tmp_path, "newf"))


def test_without_the_packages_of_debian_the_server_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> Path:
        raise VepycError("apt-get failed")

    monkeypatch.setattr(delivery, "ensure_debian_build", fail)
    monkeypatch.setattr(delivery, "ensure_llama", lambda runs_in: tmp_path)
    assert delivery.find_server_files() == {"/opt/llama/bin/llama-server": tmp_path / "bin/llama-server"}
