# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused of llama.cpp and its models before the first change, on a tree with package lists of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command as host_command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.llama_sources import find_unavailable_llama_sources
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

DEBIAN = 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian'
ROCKY = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"'
SUM = f"sha256:{'a' * 64}"
#: As apt-cache of apt 2.6 prints them.
NO_LISTS = "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\nPinned packages:\n"
LISTS = (
    "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\n"
    " 500 http://mirror.example.com/debian bookworm/main amd64 Packages\n"
    "     release v=12.11,o=Debian,a=stable,n=bookworm,l=Debian,c=main,b=amd64\n"
    "     origin mirror.example.com\nPinned packages:\n"
)


class Machine(hosts.Host):
    """A tree whose programs are dpkg-query and apt-cache, with these packages."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.put("/etc/os-release", DEBIAN)
        self.put("/etc/debian_version", "12.11")
        self.put("/proc/sys/kernel/osrelease", "6.1.0-37-amd64")
        self.installed = {"make"}
        self.candidates = {"cmake": "3.25.1-1", "g++": "4:12.2.0-3", "virtual": "(none)"}
        self.lists = LISTS
        self.calls: list[str] = []

    def attempt(self, command: Sequence[str], dummy: float | None = None) -> host_command.CommandResult:
        self.calls.append(" ".join(command))
        if command[0] == "dpkg-query":
            there = [name for name in command if name in self.installed]
            return host_command.CommandResult(1, "".join(f"{name} installed\n" for name in there), "")
        assert command[0] == "apt-cache"
        if command[-1] == "policy":
            return host_command.CommandResult(0, self.lists, "")
        version = self.candidates.get(command[-1])
        lines = f"{command[-1]}:\n  Installed: (none)\n  Candidate: {version}\n  Version table:\n"
        return host_command.CommandResult(0, lines if version else "", "")

    def refusals(self, **more: Any) -> list[str]:
        nothing = {"install": "binary", "packages": [], "archive": None, "checksum": None, "models": []}
        store = Store(str(self.root), read_only=True)
        sources = {"hub_needs_token": False, **nothing, **more}
        return find_unavailable_llama_sources(sources, KernelFS(str(self.root), read_only=True), store)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(host_command, "try_command", made.attempt)
    return made


@pytest.mark.parametrize("package", ["llama.cpp", "virtual"])
def test_a_package_that_no_source_has_is_refused(machine: Machine, package: str) -> None:
    assert machine.refusals(install="package", packages=[package]) == [
        f"There is no package {package} in the package sources of Debian 12.11. Set epyc_llama_install to source or "
        "binary, or epyc_llama_package to the package that has the server."
    ]
    asked = [call for call in machine.calls if call.startswith("apt-cache")]
    assert all("Dir::Cache::pkgcache= " in call and "Dir::Cache::srcpkgcache= " in call for call in asked), "no cache"


def test_packages_that_can_be_had_are_not_refused(machine: Machine) -> None:
    machine.installed.add("llama.cpp")
    assert machine.refusals(install="package", packages=["llama.cpp"]) == []
    source = {"install": "source", "archive": "https://x.example.com/a.tar.gz", "checksum": SUM}
    assert machine.refusals(packages=["cmake", "g++", "make"], **source) == []
    (refusal,) = machine.refusals(packages=["gcc-c++"], **source)
    assert refusal == (
        "There is no package gcc-c++ in the package sources of Debian 12.11, and epyc_llama_build_packages names it. "
        "Name the package that has the tool, or install the tool."
    )


def test_what_nobody_knows_of_packages_is_not_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose lists were never fetched, one without apt, and another distribution."""
    wanted = {"install": "package", "packages": ["llama.cpp"]}
    machine.lists = NO_LISTS
    assert machine.refusals(**wanted) == []

    def absent(command: Sequence[str], dummy: float | None = None) -> host_command.CommandResult:
        raise Absent(f"there is no {command[0]}")

    monkeypatch.setattr(host_command, "try_command", absent)
    assert machine.refusals(**wanted) == []
    machine.put("/etc/os-release", ROCKY)
    monkeypatch.setattr(host_command, "try_command", lambda *dummy: pytest.fail("it was asked"))
    assert machine.refusals(**wanted) == []


def test_sources_that_are_not_named_or_not_there_are_refused(machine: Machine) -> None:
    assert machine.refusals(install="source") == [
        "epyc_llama_install is source, and epyc_llama_source_archive is not set. Set it to the URL of an archive of "
        "llama.cpp, or its path on the host.",
        "epyc_llama_install is source, and epyc_llama_source_checksum is not set. Set it to the checksum of that "
        "archive, as sha256:HEX.",
    ]
    (refusal,) = machine.refusals(install="source", archive="/nonexistent/a.tar.gz", checksum=SUM)
    assert refusal.startswith("There is no file /nonexistent/a.tar.gz on the host (epyc_llama_source_archive).")


def model(path: str, url: str | None, checksum: str = "", hub: bool = False) -> dict[str, Any]:
    return {"path": path, "url": url, "checksum": [checksum] if checksum else [], "size": None, "hub": hub}


def test_models_are_refused_by_their_place_in_the_inventory_all_at_once(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    with serving(lambda request: say(request, 200)) as server:
        url = f"{server.url}/m.gguf"
        asked = [(url, SUM), (url, ""), (None, ""), ("file:///x", "")]
        refusals = machine.refusals(models=[model(f"{folder}/{n}.gguf", *one) for n, one in enumerate(asked)])
    places = ["epyc_llama_models[1].checksum,", "epyc_llama_models[3].url,"]
    assert [refusal.partition(" ")[0] for refusal in refusals] == places
    assert refusals[0].startswith(f"epyc_llama_models[1].checksum, of {folder}/1.gguf: {url} is not taken without")
    assert not folder.exists()


def test_a_model_of_a_hub_that_wants_a_token_is_not_asked_for(machine: Machine) -> None:
    of_hub, of_other = (model("/nonexistent/a.gguf", "https://127.0.0.1:1/a.gguf", hub=hub) for hub in (True, False))
    assert machine.refusals(models=[of_hub], hub_needs_token=True) == []
    assert len(machine.refusals(models=[of_hub, of_other])) == 2
    assert len(machine.refusals(models=[of_other], hub_needs_token=True)) == 1
