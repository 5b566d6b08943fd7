# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""llama.cpp as Debian packages it, on the Debian that is in the making: installed, served, upgraded by apt and undone.

The tests follow one another on one container with the programs of that Debian: its systemd, its Python and its apt. The
kernel is that of this machine, so only the layers that touch no kernel run. The upgrades are Debian's packages once
more, with a higher version and other bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from vepyc.container import SYSTEM_PACKAGES, running_container
from vepyc.images.debian_packages import fetch_packages
from vepyc.llama import llama_cpp
from vepyc.llama.debian_build import LLAMA_SUITE
from vepyc.playbook_runs import PlaybookRun, run_playbook

from ..fixtures.containers import MODELS, REPETITIVE_PROMPT, ServiceHost, wait_until
from .test_upgrade import RESTORE, STATE

pytestmark = pytest.mark.slow

#: The packages of llama.cpp, and their dependencies that the container lacks.
PACKAGES: tuple[str, ...] = ("llama.cpp", "llama.cpp-services", "llama.cpp-tools", "libllama0", "libggml0", "libgomp1")
PACKAGES += ("wget", "libgnutls30t64", "libidn2-0", "libp11-kit0", "libpsl5t64", "libtasn1-6", "libunistring5")
#: Makes a repository on the disk of the packages in /srv/repository, and names it to apt as the only one.
REPOSITORY = r"""
set -e
cd /srv/repository
for file in *.deb; do
    dpkg-deb --field $file
    printf 'Filename: ./%s\nSize: %s\n' $file $(stat --format=%s $file)
    printf 'SHA256: %s\n\n' $(sha256sum $file | cut --delimiter=' ' --fields=1)
done >Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get -qq update
"""
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq"
#: Builds a package again, with a higher version, and one more byte in some of its files.
BUILD_AGAIN = r"""
set -e
cd /srv/repository
dpkg-deb --raw-extract {package}.deb /run/{package}
sed -i 's/^Version: .*/&+new/' /run/{package}/DEBIAN/control
for file in /run/{package}{files}; do printf '\n' >>$file; done
dpkg-deb -Znone --root-owner-group --build /run/{package} {package}.deb
"""
#: Package -> the files that its upgrade replaces: the server, and the code that computes, in a folder of its own.
UPGRADES = {
    "llama.cpp-tools": "/usr/bin/llama-server",
    "libggml0": "/usr/lib/x86_64-linux-gnu/ggml/backends0/*.so",
}
#: The unit that Debian installs beside the server, and the port of that unit.
PACKAGED_UNIT, PACKAGED_PORT = "llama-server.service", 9931
CHAT = {"name": "chat", "port": 8081, "context": 2048}


class PackageHost(ServiceHost):
    """A host on which site.yml installs the package and serves."""

    def play(self, playbook: str, *arguments: str, **changes: object) -> PlaybookRun:
        """Run a playbook for one instance with these changes to its options."""
        asked = {
            "epyc_steps": ["base", "llama"],
            "epyc_llama_install": "package",
            "epyc_llama_instances": self.with_test_model({**CHAT, **changes}),
        }
        return run_playbook(self.folder, f"playbooks/{playbook}.yml", "-e", json.dumps(asked), *arguments)

    def site(self, **changes: object) -> PlaybookRun:
        """Run site.yml, which must succeed."""
        played = self.play("site", **changes)
        assert played.returncode == 0, played.output
        return played

    def serves(self, port: int = CHAT["port"]) -> bool:  # type: ignore[assignment]
        return bool(self.complete_text(port, REPETITIVE_PROMPT, 4)["content"])


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageHost]:
    """A host whose apt has the packages. Its first state is that with the packages installed."""
    model, packages = llama_cpp.ensure_model(), fetch_packages(LLAMA_SUITE, *PACKAGES)[0].parent
    binds = {model.parent: MODELS, packages: "/srv/packages"}
    with running_container("test-llama-package", binds, suite=LLAMA_SUITE, packages=SYSTEM_PACKAGES) as box:
        host = PackageHost(box, tmp_path_factory.mktemp("package"))
        host.run("mkdir /srv/repository")
        for package in PACKAGES:
            host.run(f"cp /srv/packages/{package}_*.deb /srv/repository/{package}.deb")
        host.run(REPOSITORY)
        host.run(f"{APT} install llama.cpp")
        host.first = host.run(STATE).splitlines()
        host.run(f"{APT} purge llama.cpp 'llama.cpp-*' && {APT} autoremove --purge")
        host.run("! test -e /usr/bin/llama-server")
        yield host


def test_site_installs_the_package_and_serves(host: PackageHost) -> None:
    played = host.site()
    assert "Install the package with the server" in played.changed_results
    assert host.run(f"readlink /proc/{host.main_pid('chat')}/exe") == "/usr/bin/llama-server\n"
    assert "/ggml/backends0/libggml-cpu-" in host.run(f"cat /proc/{host.main_pid('chat')}/maps")
    assert host.serves()
    assert host.site().changed_results == {}


def test_the_unit_of_the_package_and_ours_run_side_by_side(host: PackageHost) -> None:
    assert host.run(f"systemctl is-enabled {PACKAGED_UNIT}", check=False) == "disabled\n"
    host.run(f"systemctl start {PACKAGED_UNIT}")
    wait_until(lambda: host.run(f"ss -Hltn sport = :{PACKAGED_PORT}"))
    ours, theirs = host.main_pid("chat"), host.main_pid("server")
    assert host.site().changed_results == {} and host.serves()
    assert (host.main_pid("chat"), host.main_pid("server")) == (ours, theirs) and 0 not in (ours, theirs)
    refused = host.play("site", port=PACKAGED_PORT)
    assert refused.returncode == 2 and refused.changed_results == {}
    assert f"port {PACKAGED_PORT} of 127.0.0.1 is taken by another program" in refused.output
    host.run(f"systemctl stop {PACKAGED_UNIT}")


def test_an_instance_with_the_name_of_the_packages_unit_is_refused(host: PackageHost) -> None:
    before = host.read_units()
    refused = host.play("site", name="server")
    assert refused.returncode == 2 and refused.changed_results == {}
    sentence = f"Instance server: Its unit would have the name of /usr/lib/systemd/system/{PACKAGED_UNIT}, which a"
    assert sentence in " ".join(refused.output.split()), refused.output
    assert host.read_units() == before


@pytest.mark.parametrize("package", UPGRADES)
def test_an_upgrade_by_apt_is_noticed_and_the_next_run_restarts(host: PackageHost, package: str) -> None:
    before = host.main_pid("chat")
    host.run(BUILD_AGAIN.format(package=package, files=UPGRADES[package]))
    host.run(REPOSITORY)
    host.run(f"{APT} upgrade")
    assert host.main_pid("chat") == before, "apt restarts no instance"
    complaints = host.play("verify")["Go through the checklist"]["complaints"]
    assert [line for line in complaints if "was replaced or removed since" in line], complaints
    assert host.play("drift").returncode == 2
    host.site()
    assert host.main_pid("chat") not in (0, before) and host.serves()
    assert host.site().changed_results == {}
    assert host.play("drift").returncode == 0


def test_the_undo_leaves_what_the_packages_have_brought(host: PackageHost) -> None:
    played = host.play("restore", *RESTORE)
    assert played.returncode == 0, played.output
    assert set(host.run(STATE).splitlines()) ^ set(host.first) == set()
