# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that an earlier version tuned: this version takes it over, and can go back to the very first state.

On a host that a later version tuned, this version replaces the later one, or leaves everything as it is.

The tests follow one another on one container with the real llama-server. Its kernel is that of this machine, so the
inventories ask for the values that this kernel has: no version changes a setting. What an upgrade does to settings that
were changed is tested with the ledger, in tests/unit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from tests.fixtures.containers import ServiceHost, wait_until
from tests.fixtures.releases import Release, install_earlier_release, install_later_release
from vepyc.playbook_runs import PlaybookRun, kill_playbook, run_playbook
from vepyc.quick_python.python_files import KILL_MODULES

pytestmark = pytest.mark.slow

STORE, BOOT = "/var/lib/sovereign-epyc", "/etc/systemd/system/sovereign-epyc.service"
PORT, PROMPT = 8080, "Once upon a time"
RESTORE = ("-e", json.dumps({"epyc_restore_instances": True, "epyc_restore_history": True}))
INSTALL, SERVE = "Install the host tool and its services", "Run the instances"
STORE_INTENT = "Set NUMA balancing and transparent huge pages"
#: What the first run of this version changes: the host tool is another; epyc_plan_housekeeping has another default, so
#: the stored intent is another; and the unit gets a digest and the present hardening. No setting changes.
CHANGED = {INSTALL, STORE_INTENT, SERVE}
#: All files below the folders of the collection and of systemd, and the units that systemd knows. The folders of
#: systemd itself, and the bytecode of the distribution's Python, change by themselves.
STATE = r"""
cd /
find etc -type f -exec sha256sum {} + | sort
find etc usr/lib usr/sbin usr/local var/lib ! -path 'var/lib/systemd/*' ! -name '*.pyc' ! -name __pycache__ \
    -printf '%y %m %U:%G %p %l\n' | sort
systemctl list-unit-files --plain --no-legend | sort
"""


def read_kernel_choice(path: str) -> str:
    """Return the chosen word of a file such as "always [madvise] never"."""
    return re.findall(r"\[(\S+)\]", Path(path).read_text())[0]


def asked(host: ServiceHost, prefix: str) -> tuple[str, str]:
    """Return the inventory as an extra variable; names of variables got a prefix after the earlier version."""
    huge = "/sys/kernel/mm/transparent_hugepage"
    balancing = Path("/proc/sys/kernel/numa_balancing")
    variables: dict[str, Any] = {
        "numa_thp": read_kernel_choice(f"{huge}/enabled"),
        "numa_thp_defrag": read_kernel_choice(f"{huge}/defrag"),
        "numa_balancing": balancing.exists() and balancing.read_text().strip() != "0",
        "llama_binary": host.binary,
        "llama_instances": [{"name": "chat", "model": host.model, "port": PORT, "context": 4096}],
    }
    if prefix:
        # This version counts the prompt cache of 8 GiB, for which the machine of the tests may have no room.
        variables["llama_instances"][0]["prompt_cache"] = "0MiB"
    renamed = {f"{prefix}{name}": value for name, value in variables.items()}
    return "-e", json.dumps({"epyc_steps": ["base", "numa", "llama"], **renamed})


class UpgradedHost:
    """A host that both versions tune."""

    def __init__(self, host: ServiceHost, release: Release) -> None:
        self.host = host
        self.release = release
        self.first = self.state()

    def play_old(self, playbook: str, *arguments: str) -> PlaybookRun:
        return self.release.play(self.host.folder / "hosts.json", playbook, *asked(self.host, ""), *arguments)

    def play_new(self, playbook: str, *arguments: str) -> PlaybookRun:
        return run_playbook(self.host.folder, f"playbooks/{playbook}.yml", *asked(self.host, "epyc_"), *arguments)

    def kill_new_site_after_base(self) -> None:
        """Run site.yml of this version, and kill it when the role epyc_base has ended."""
        site = ("playbooks/site.yml", *asked(self.host, "epyc_"))
        assert kill_playbook(self.host.folder, *site, after=1, kill=self._kill_modules_after_base), "it ended by itself"

    def _kill_modules_after_base(self) -> None:
        record = self.host.folder / "record.jsonl"
        wait_until(lambda: f'"task": "{INSTALL}"' in record.read_text())
        self.host.run(KILL_MODULES, check=False)

    def state(self) -> str:
        return self.host.run(STATE)

    def stored_format(self) -> int:
        return int(json.loads(self.host.run(f"cat {STORE}/desired.json")).get("format", 1))

    def serves(self) -> bool:
        return bool(self.host.complete_text(PORT, PROMPT, 4)["content"])

    def restore(self) -> None:
        """Undo everything by this version; afterwards the host is as it was before the first run."""
        played = self.play_new("restore", *RESTORE)
        assert played.returncode == 0, played.output
        assert set(self.state().splitlines()) ^ set(self.first.splitlines()) == set()


@pytest.fixture(scope="module")
def upgraded(service_host: ServiceHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpgradedHost]:
    """The host before any run, and the earlier version.

    That the host is a container is hidden, because the layer numa is refused in one.
    """
    service_host.run("rm /run/systemd/container")
    yield UpgradedHost(service_host, install_earlier_release("0.1.0-dev", tmp_path_factory.mktemp("earlier")))


def test_the_earlier_version_tunes_the_host_and_serves(upgraded: UpgradedHost) -> None:
    played = upgraded.play_old("site")
    assert played.returncode == 0, played.output
    assert upgraded.play_old("site").changed_results == {}
    assert upgraded.serves() and upgraded.stored_format() == 1
    assert "ledger" not in upgraded.host.run(f"ls {STORE}"), "no setting was changed"


def test_a_look_by_this_version_changes_nothing_and_says_what_to_run(upgraded: UpgradedHost) -> None:
    before, process = upgraded.state(), upgraded.host.main_pid("chat")
    drift = upgraded.play_new("drift")
    message = drift["Fail where something is not as configured"]["msg"]
    assert drift.returncode == 2 and "an earlier version of the collection wrote the unit file" in message, message
    assert "ledger" not in message
    check = upgraded.play_new("site", "--check")
    assert check.returncode == 0 and check.changed_results.keys() == CHANGED, check.output
    assert check[STORE_INTENT]["diff"]["changes"]["after"].keys() == {"desired:intent"}
    assert (upgraded.state(), upgraded.host.main_pid("chat")) == (before, process)


def test_the_first_run_changes_what_the_changelog_says_and_the_second_one_nothing(upgraded: UpgradedHost) -> None:
    played = upgraded.play_new("site")
    assert played.returncode == 0 and played.changed_results.keys() == CHANGED, played.output
    assert played[STORE_INTENT]["diff"]["changes"]["after"].keys() == {"desired:intent"}
    assert upgraded.serves() and upgraded.stored_format() == 2
    assert json.loads(upgraded.host.run(f"cat {STORE}/ledger.json"))["lasting"] == {}
    again = upgraded.play_new("site")
    assert (again.returncode, again.changed_results) == (0, {}), again.output
    assert upgraded.play_new("drift").returncode == 0
    assert upgraded.host.run("sovereign-epyc show").count("newest run of site.yml: ") == 1


def test_the_undo_leaves_what_was_there_before_the_earlier_version(upgraded: UpgradedHost) -> None:
    upgraded.restore()


def test_an_upgrade_that_was_killed_is_finished_by_the_next_run(upgraded: UpgradedHost) -> None:
    """It is killed after the role epyc_base; the boot service is then made that of the earlier version again."""
    host = upgraded.host
    assert upgraded.play_old("site").returncode == 0
    old_boot, old_instance = host.run(f"cat {BOOT}"), host.run("cat /etc/systemd/system/llama-chat.service")
    upgraded.kill_new_site_after_base()
    assert host.run("cat /etc/systemd/system/llama-chat.service") == old_instance
    assert host.run(f"cat {BOOT}") != old_boot
    host.write_file(BOOT, old_boot.encode())
    host.run("systemctl daemon-reload && systemctl restart sovereign-epyc.service")
    assert "did not end" in host.run("sovereign-epyc check", check=False)
    assert upgraded.serves()
    played = upgraded.play_new("site")
    assert played.returncode == 0 and played.changed_results.keys() == CHANGED, played.output
    assert upgraded.serves() and "did not end" not in host.run("sovereign-epyc check", check=False)
    assert upgraded.play_new("site").changed_results == {}


def test_the_way_back_is_the_undo_and_the_earlier_version(upgraded: UpgradedHost) -> None:
    upgraded.restore()
    assert upgraded.play_old("site").returncode == 0
    assert upgraded.serves()
    upgraded.restore()


def play_later(upgraded: UpgradedHost, later: Release, playbook: str, *arguments: str) -> None:
    inventory = upgraded.host.folder / "hosts.json"
    played = later.play(inventory, playbook, *asked(upgraded.host, "epyc_"), *arguments)
    assert played.returncode == 0, played.output


def test_this_version_replaces_a_later_one_of_the_same_formats(upgraded: UpgradedHost, tmp_path: Path) -> None:
    """The later version has a package where this one has a module, which the host tool must not import."""
    later = install_later_release("9.8.7", tmp_path, {})
    play_later(upgraded, later, "site")
    assert upgraded.host.run("sovereign-epyc --version") == "sovereign-epyc 9.8.7\n"
    upgraded.host.run("mkdir /usr/lib/sovereign-epyc/sovereign_epyc/_errors")
    upgraded.host.write_file("/usr/lib/sovereign-epyc/sovereign_epyc/_errors/__init__.py", b"# a later version\n")
    process = upgraded.host.main_pid("chat")
    played = upgraded.play_new("site")
    assert played.returncode == 0 and played.changed_results.keys() == {INSTALL}, played.output
    assert upgraded.host.run("sovereign-epyc --version") == f"sovereign-epyc {VERSION}\n"
    assert upgraded.serves() and upgraded.host.main_pid("chat") == process
    upgraded.restore()


def test_this_version_leaves_a_later_one_of_other_formats_as_it_is(upgraded: UpgradedHost, tmp_path: Path) -> None:
    edits = {"plugins/module_utils/_io/store.py": ("FORMATS = {REQUESTS: 2}", "FORMATS = {REQUESTS: 3}")}
    later = install_later_release("9.8.7", tmp_path, edits)
    play_later(upgraded, later, "site")
    before = upgraded.state()
    for playbook in ("site", "restore"):
        refused = upgraded.play_new(playbook, *(RESTORE if playbook == "restore" else ()))
        # Ansible breaks long lines of a message.
        output = " ".join(refused.output.split())
        assert refused.returncode == 2 and "by a newer version of the collection (9.8.7)" in output
    assert upgraded.serves() and upgraded.state() == before
    play_later(upgraded, later, "restore", *RESTORE)
    assert upgraded.play_new("site").returncode == 0
    assert upgraded.serves()
    upgraded.restore()
