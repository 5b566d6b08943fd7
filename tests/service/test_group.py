# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One model on two hosts, two containers with a wire between them, by the real llama-server and ggml-rpc-server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import Container, running_container
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.containers import BUILD, MODELS, SEND_REQUEST, wait_until

pytestmark = pytest.mark.slow

HEAD, WORKER = "group-head", "group-worker"
ADDRESSES = {HEAD: "10.20.0.1", WORKER: "10.20.0.2"}
PROMPT = "one two three four five six seven eight nine ten\n" * 3 + "one two three"
#: The same model by a server that has it alone.
ALONE = (
    "systemd-run --quiet --unit=alone {binary} --model {model} --port 8090 --ctx-size 2048 --threads 1 --cache-ram 0 "
    "--parallel 1"
)
#: The build with another worker in it, which no run of it would tell.
OTHER = f"mkdir -p /opt/other && ln -s {BUILD}/bin/* /opt/other/ && rm /opt/other/ggml-rpc-server && "
OTHER += f"cat {BUILD}/bin/ggml-rpc-server - >/opt/other/ggml-rpc-server && chmod 755 /opt/other/ggml-rpc-server"


class Two:
    """A head and a worker, and what Ansible does to them."""

    def __init__(self, boxes: dict[str, Container], folder: Path) -> None:
        self.boxes = boxes
        self.folder = folder
        self.binary = f"{BUILD}/bin/llama-server"
        self.model = f"{MODELS}/{llama_cpp.ensure_model().name}"

    def play(self, *arguments: str, head: dict[str, Any] | None = None, **worker: Any) -> PlaybookRun:
        """Run the playbook, with more variables for each of the two."""
        asked = {"name": "large", "alias": "large", "model": self.model, "port": 8080, "context": 2048}
        asked |= {"prompt_cache": "0MiB", "speculation": "none", "rpc_workers": [f"{ADDRESSES[WORKER]}:50052"]}
        more = {HEAD: {"epyc_llama_instances": [{**asked, **(head or {})}]}, WORKER: worker}
        hosts = {
            name: {
                "epyc_group_address": ADDRESSES[name],
                "epyc_llama_binary": self.binary,
                **box.inventory_variables(),
                **more[name],
            }
            for name, box in self.boxes.items()
        }
        write_inventory(self.folder, hosts, epyc_llama_group=hosts)
        return run_playbook(self.folder, "playbooks/group.yml", *arguments)

    def run(self, name: str, command: str, check: bool = True, text: str = "") -> str:
        return self.boxes[name].run(command, check=check, input=text).stdout

    def state(self) -> str:
        """Return the units of both, and whether the host tool is there."""
        command = (
            "ls /etc/systemd/system /usr/sbin/sovereign-epyc; systemctl show --property=MainPID 'llama-*' 'ggml-*'"
        )
        return "".join(self.run(name, command, check=False) for name in self.boxes)

    def refuse(self, *arguments: str, **asked: Any) -> str:
        """Run the playbook, which must refuse with nothing changed; return what it said."""
        before = self.state()
        played = self.play(*arguments, **asked)
        assert played.returncode == 2 and not played.changed_results, played.output
        assert self.state() == before
        return " ".join(played.output.split())

    def complete(self, port: int) -> dict[str, Any] | None:
        """Have a server go on with a text, always in the same way; None where no answer comes."""
        body = {"prompt": PROMPT, "n_predict": 32, "temperature": 0, "seed": 1, "cache_prompt": False}
        words = shlex.join(["python3", "-c", SEND_REQUEST, f"http://127.0.0.1:{port}/completion", ""])
        status, dummy, text = self.run(HEAD, words, check=False, text=json.dumps(body)).partition(" ")
        return dict(json.loads(text)) if status == "200" else None

    def worked(self) -> int:
        """Return for how long the worker has computed, in ticks of the clock."""
        process = self.run(WORKER, "systemctl show --property=MainPID --value ggml-rpc-worker.service").strip()
        return sum(
            int(word) for word in self.run(WORKER, f"cat /proc/{process}/stat").rpartition(")")[2].split()[11:13]
        )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    build, model = llama_cpp.ensure_llama(), llama_cpp.ensure_model()
    with ExitStack() as stack:
        binds = {build: BUILD, model.parent: MODELS}
        boxes = {name: stack.enter_context(running_container(name, binds)) for name in ADDRESSES}
        boxes[HEAD].connect_cable(boxes[WORKER], *(f"{address}/24" for address in ADDRESSES.values()))
        yield Two(boxes, tmp_path_factory.mktemp("group"))


def test_other_builds_and_public_addresses_are_refused(two: Two) -> None:
    said = two.refuse(epyc_group_address="198.18.0.2", head={"rpc_workers": ["198.18.0.2:50052"]})
    assert "198.18.0.2 is not an address of a private network" in said
    two.run(WORKER, OTHER, text="x")
    said = two.refuse(epyc_group_rpc_binary="/opt/other/ggml-rpc-server")
    sums = [two.run(WORKER, f"sha256sum {path}/ggml-rpc-server").split()[0] for path in (f"{BUILD}/bin", "/opt/other")]
    assert f"ggml-rpc-server is sha256:{sums[0]} on {HEAD} and sha256:{sums[1]} on {WORKER}" in said, said


def test_it_says_the_same_as_one_server(two: Two) -> None:
    """And the worker has computed a part of it. What systemd makes of IPAddressAllow is not seen in containers."""
    two.run(HEAD, ALONE.format(binary=two.binary, model=two.model))
    played = two.play()
    assert played.returncode == 0, played.output
    (plan,) = [
        result["worker"] for result in played.results if result["task"] == "Run the workers" and "worker" in result
    ]
    assert plan["arguments"][-3:] == ["-t", str(plan["threads"]), "-c"], plan
    before = two.worked()
    told = two.complete(8080)
    assert told and two.worked() > before + 5
    wait_until(lambda: two.complete(8090))
    alone = two.complete(8090)
    two.run(HEAD, "systemctl stop alone")
    assert alone and told["content"] == alone["content"] and told["tokens_predicted"] > 15
    said = two.run(WORKER, "systemctl show --property=IPAddressAllow,IPAddressDeny ggml-rpc-worker.service; ss -Hltn")
    assert "IPAddressAllow=10.20.0.1/32" in said and "10.20.0.2:50052" in said and "0.0.0.0:50052" not in said
    print(f"{told['timings']['predicted_per_second']:.1f} tokens per second by two hosts")
    print(f"{alone['timings']['predicted_per_second']:.1f} tokens per second by one with one thread")


def test_the_whole_comes_back_when_a_worker_is_killed(two: Two) -> None:
    before = two.run(HEAD, "systemctl show --property=MainPID --value llama-large.service")
    two.run(WORKER, "systemctl kill --signal=KILL ggml-rpc-worker.service")
    wait_until(lambda: two.run(WORKER, "systemctl is-active ggml-rpc-worker.service", check=False) == "active\n")
    assert two.complete(8080) is None, "the first request finds out"
    seconds = wait_until(lambda: two.complete(8080))
    assert two.run(HEAD, "systemctl show --property=MainPID --value llama-large.service") != before
    print(f"it served again after {seconds:.1f} s")


def test_it_goes_as_it_came(two: Two) -> None:
    played = two.play("-e", "epyc_group_state=absent")
    assert played.returncode == 0, played.output
    left = "ls /etc/systemd/system /var/lib /var/lib/private; systemctl list-units --all 'llama-*' 'ggml-*'"
    assert [word for name in two.boxes for word in two.run(name, left, check=False).split() if "rpc" in word] == []
    assert "llama-large" not in two.run(HEAD, left, check=False)
