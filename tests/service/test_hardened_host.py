# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host as hardening guides and other countries leave it: served, verified, measured and undone.

Ansible logs in as a user without rights, whose sudo asks for a password and gives files to root alone. Every folder for
temporary files is mounted with noexec. The programs of the host speak German. The tests follow one another on one
container.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL_FOLDER
from vepyc.container import running_container
from vepyc.images.debian_packages import fetch_packages
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.containers import BUILD, MODELS, REPETITIVE_PROMPT, ServiceHost
from .test_upgrade import RESTORE, STATE

pytestmark = pytest.mark.slow

USER, PASSWORD = "jane", 'it\'s a "long" word'
LOCALE = "de_DE.UTF-8"
PACKAGES = ("locales", "libc-l10n")
#: Brings the locale to systemd and to what sshd starts, and makes the user.
HARDEN = f"""
set -e
DEBIAN_FRONTEND=noninteractive dpkg --install /srv/packages/*.deb
localedef --inputfile=de_DE --charmap=UTF-8 {LOCALE}
systemctl set-environment LANG={LOCALE} LC_ALL={LOCALE}
echo SetEnv LC_ALL={LOCALE} LANG={LOCALE} >/etc/ssh/sshd_config.d/locale.conf
for folder in /tmp /var/tmp /dev/shm /home /run/lock; do
    mount -t tmpfs -o mode=1777,noexec,nosuid,nodev tmpfs $folder
done
mount -o remount,noexec,nosuid,nodev /run
useradd --create-home --shell /bin/bash {USER}
install -D --owner={USER} --mode=0600 /root/.ssh/authorized_keys /home/{USER}/.ssh/authorized_keys
chown {USER}: /home/{USER}/.ssh
printf 'Defaults umask=0077, umask_override\\n{USER} ALL=(ALL:ALL) ALL\\n' >/etc/sudoers.d/{USER}
chpasswd
"""
CHAT = {"name": "chat", "port": 8081, "context": 2048, "slots": 1}
PROMPTS = "".join(f"{json.dumps({'text': text, 'output_length': 8})}\n" for text in ("Once upon a time", "Es war"))
BENCHMARKS = "/var/lib/sovereign-epyc/benchmarks"
BENCHMARK = {"epyc_benchmark_rounds": 1, "epyc_benchmark_prompts": "/srv/prompts.jsonl", "epyc_benchmark_streams": []}
#: Measures the bandwidth of a CPU with the archive that the benchmark has put on the host.
READ_MEMORY = f"""
import sys
sys.path.insert(0, "{HOST_TOOL_FOLDER}")
from sovereign_epyc._io import module_sources
reader = module_sources.import_from_benchmark_archive("_bench.memory.memory_reader")
print(reader.measure_fastest_read_gbps([0], 1 << 20, milliseconds=20))
"""


class HardenedHost(ServiceHost):
    """A host on which site.yml serves one instance."""

    def play(self, playbook: str, *arguments: str, **asked: object) -> PlaybookRun:
        """Run a playbook with these variables beside those of the instance."""
        variables = {
            "epyc_steps": ["base", "llama"],
            "epyc_llama_install": "binary",
            "epyc_llama_binary": self.binary,
            "epyc_llama_instances": self.with_test_model(CHAT),
            **asked,
        }
        return run_playbook(self.folder, f"playbooks/{playbook}.yml", "-e", json.dumps(variables), *arguments)

    def succeed(self, playbook: str, *arguments: str, **asked: object) -> PlaybookRun:
        """Run a playbook, which must succeed."""
        played = self.play(playbook, *arguments, **asked)
        assert played.returncode == 0, played.output
        return played


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HardenedHost]:
    """The host; Ansible knows the password of its user."""
    build, model = llama_cpp.ensure_llama(), llama_cpp.ensure_model()
    packages = fetch_packages("trixie", *PACKAGES)[0].parent
    binds = {build: BUILD, model.parent: MODELS, packages: "/srv/packages"}
    with running_container("test-hardened", binds) as box:
        host = HardenedHost(box, tmp_path_factory.mktemp("hardened"))
        host.run(HARDEN, text=f"{USER}:{PASSWORD}\n")
        host.run("cat >/srv/prompts.jsonl", text=PROMPTS)
        login = {"ansible_user": USER, "ansible_become_password": PASSWORD}
        # With another path to Python, the lab's own ssh does not go around sshd and sudo.
        direct = {"ansible_python_interpreter": "/bin/python3"}
        write_inventory(host.folder, {box.name: {**box.inventory_variables(), **login, **direct}})
        host.first = host.run(STATE).splitlines()
        yield host


def test_the_host_is_as_hard_as_this_file_says(host: HardenedHost) -> None:
    assert host.box.run(f"runuser -u {USER} -- sudo --non-interactive true", check=False).returncode == 1
    host.run("cp /bin/true /tmp/true && cp /bin/true /var/tmp/true")
    for program in ("/tmp/true", "/var/tmp/true"):
        assert host.box.run(program, check=False).returncode == 126, program
    assert "Datei oder Verzeichnis" in host.box.run(f"LC_ALL={LOCALE} ls /no/such", check=False).stderr


def test_a_wrong_password_changes_nothing(host: HardenedHost) -> None:
    refused = host.play("site", ansible_become_password="wrong")
    assert refused.returncode != 0 and not refused.changed_results
    assert host.run(STATE).splitlines() == host.first


def test_layers_of_the_kernel_are_refused_by_the_kind_of_the_container(host: HardenedHost) -> None:
    """LXC tells its name in the same file as systemd-nspawn."""
    host.run("echo lxc >/run/systemd/container")
    refused = host.play("site", epyc_steps=["base", "numa", "irq", "llama"])
    host.run("echo systemd-nspawn >/run/systemd/container")
    assert refused.returncode != 0 and not refused.changed_results
    words = "This host is a container (lxc), and kernel settings belong to its host: leave numa, irq out of epyc_steps."
    assert words in " ".join(refused.output.split()), refused.output
    assert host.run(STATE).splitlines() == host.first


def test_site_serves_and_a_second_run_changes_nothing(host: HardenedHost) -> None:
    host.succeed("site", "--check")
    assert host.run(STATE).splitlines() == host.first
    host.succeed("site")
    assert host.complete_text(CHAT["port"], REPETITIVE_PROMPT, 4)["content"]  # type: ignore[arg-type]
    assert host.succeed("site").changed_results == {}


def test_drift_and_verify_find_nothing(host: HardenedHost) -> None:
    assert host.succeed("drift").changed_results == {}
    assert host.succeed("verify")["Go through the checklist"]["complaints"] == []


def test_a_benchmark_runs_and_the_reader_of_memory_is_compiled_where_it_may_run(host: HardenedHost) -> None:
    """Others use this machine, so whether the round counts is chance."""
    measured = host.play("benchmark", **BENCHMARK)["Measure"]["results"][0]
    assert "rounds" in measured["text"], measured
    assert 0.01 < float(host.run(f"python3 -c '{READ_MEMORY}'")) < 1000
    host.run(f"rm -r {BENCHMARKS}")


def test_the_undo_is_exact(host: HardenedHost) -> None:
    host.succeed("restore", *RESTORE)
    assert set(host.run(STATE).splitlines()) ^ set(host.first) == set()
