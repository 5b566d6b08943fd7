# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One model of vLLM on two hosts, two containers with a wire between them, which begin and end as one.

What systemd makes of IPAddressAllow is not seen in containers. With VLLM and VLLM_MODEL they run the real one, as
test_vllm.py says.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import Container
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.containers import SEND_REQUEST, wait_until
from ..fixtures.vllm_containers import run_vllm_container

pytestmark = pytest.mark.slow

HEAD, WORKER = "vllm-head", "vllm-worker"
ADDRESSES = {HEAD: "10.20.0.1", WORKER: "10.20.0.2"}
UNIT = "vllm-large.service"
SHOW = f"systemctl show --property=MainPID --value {UNIT}"


class Two:
    """A head and a worker, and what Ansible does to them."""

    def __init__(self, boxes: dict[str, Container], folder: Path) -> None:
        self.boxes, self.folder = boxes, folder

    def play(self, *arguments: str, **changed: Any) -> PlaybookRun:
        """Run the playbook with an instance that differs in this from a plain one."""
        asked = {"name": "large", "model": "/srv/models/small", "port": 8090, "kv_cache": "256MiB"}
        asked |= {"workers": [f"{ADDRESSES[WORKER]}:29500"], **changed}
        own = {HEAD: {"epyc_vllm_instances": [asked]}, WORKER: {}}
        same = {"epyc_plan_housekeeping": {"cores": 0}, "epyc_vllm_start_timeout": 600}
        hosts = {
            name: {"epyc_group_address": ADDRESSES[name], **same, **box.inventory_variables(), **own[name]}
            for name, box in self.boxes.items()
        }
        write_inventory(self.folder, hosts, epyc_llama_group=hosts)
        return run_playbook(self.folder, "playbooks/group.yml", *arguments)

    def run(self, name: str, command: str, check: bool = True) -> str:
        return self.boxes[name].run(command, check=check).stdout

    def state(self) -> str:
        """Return what the role could change on both, and the processes."""
        files = "find /etc/systemd/system /usr/sbin/sovereign-epyc -type f -exec sha256sum {} ';' | sort"
        return "".join(self.run(name, f"{files}; {SHOW}", check=False) for name in self.boxes)

    def serves(self) -> bool:
        words = shlex.join(["python3", "-c", SEND_REQUEST, "http://127.0.0.1:8090/health", ""])
        return self.run(HEAD, words, check=False).startswith("200 ")

    def process(self, name: str) -> str:
        return self.run(name, SHOW).strip()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with ExitStack() as stack:
        boxes = {name: stack.enter_context(run_vllm_container(name, "vllm")) for name in ADDRESSES}
        for box in boxes.values():
            box.run("dpkg --install /srv/packages/*.deb")
        boxes[HEAD].connect_cable(boxes[WORKER], *(f"{address}/24" for address in ADDRESSES.values()))
        yield Two(boxes, tmp_path_factory.mktemp("group"))


@pytest.fixture(scope="module")
def served(two: Two) -> PlaybookRun:
    """The first play, after another model on the worker was refused."""
    config = "/srv/models/small/config.json"
    other = "sed 's/\\(max_position_embeddings[^0-9]*\\)[0-9]*/\\1512/'"
    two.run(WORKER, f"{other} {config} >/tmp/config && mount --bind /tmp/config {config}")
    before = two.state()
    played = two.play()
    assert played.returncode == 2 and "the config.json of the model is sha256:" in played.output, played.output
    assert two.state() == before
    two.run(WORKER, f"umount {config}")
    played = two.play()
    assert played.returncode == 0, played.output
    return played


def test_both_compute_and_the_next_run_changes_nothing(two: Two, served: PlaybookRun) -> None:
    judged = ("Wait for the answer of the head", "Look where the workers compute")
    looked = {one["host"]: one for one in served.results if one["task"] in judged and "clean" in one}
    assert set(looked) == set(ADDRESSES) and all(one["clean"] for one in looked.values())
    before = two.state()
    played = two.play()
    assert played.returncode == 0 and played.changed_results == {}, played.output
    assert two.state() == before


@pytest.mark.parametrize("lost", [HEAD, WORKER])
def test_the_whole_begins_anew_when_a_part_is_lost(two: Two, served: PlaybookRun, lost: str) -> None:
    """Its vLLM, and not the process that systemd knows of; no request finds out."""
    before = {name: two.process(name) for name in ADDRESSES}
    two.run(lost, f"kill -9 $(pgrep --parent {before[lost]})")
    wait_until(lambda: all(two.process(name) not in (before[name], "0") for name in ADDRESSES))
    wait_until(two.serves)
    said = two.run(WORKER if lost == HEAD else HEAD, f"journalctl --unit={UNIT} --output=cat")
    assert "broke, so that this part ends too." in said


def test_a_change_comes_to_both_and_it_goes_as_it_came(two: Two, served: PlaybookRun) -> None:
    played = two.play(slots=8)
    assert played.returncode == 0 and two.serves(), played.output
    assert "Stop the head while its workers change" in played.changed_results
    assert all("--max-num-seqs 8" in two.run(name, f"cat /etc/systemd/system/{UNIT}") for name in ADDRESSES)
    played = two.play("-e", "epyc_group_state=absent")
    assert played.returncode == 0, played.output
    left = "ls -d /etc/systemd/system/vllm* /var/lib/vllm* /var/lib/private/vllm*"
    assert [two.run(name, left, check=False) for name in ADDRESSES] == ["", ""]
