# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that serves models: a container with a systemd of its own, the real llama-server and a real model."""

from __future__ import annotations

import base64
import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vepyc import llama
from vepyc.container import Container, container
from vepyc.play import Play, run_playbook

PLAYBOOK = Path(__file__).with_name("serve.yml")
#: Where the server and the model are in the container.
BUILD, MODELS = "/opt/built", "/srv/models"

# Asks a server, and prints the answer's status and text.
ASK = """
import json, sys, urllib.error, urllib.request
url, key, body = sys.argv[1], sys.argv[2], sys.stdin.read()
headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
request = urllib.request.Request(url, body.encode() or None, headers)
try:
    with urllib.request.urlopen(request, timeout=100) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def until(holds: Callable[[], object]) -> float:
    """Wait until something holds; return for how long."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() < begun + 60, "it never came"
        time.sleep(0.1)
    return time.monotonic() - begun


class Host:
    """The container, and what Ansible does to it."""

    def __init__(self, box: Container, folder: Path) -> None:
        self.box = box
        self.folder = folder
        #: After the first play that went well, which puts it there, the role base would only look at it again.
        self.engine_is_there = False
        self.binary = f"{BUILD}/bin/llama-server"
        self.model = f"{MODELS}/{llama.ensure_model().name}"
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {box.name: box.inventory()}}}))

    def play(self, *arguments: str, **wants: Any) -> Play:
        """Run the role with these variables."""
        asked = self.folder / "asked.json"
        told = {"llama_binary": self.binary, "engine_is_there": self.engine_is_there, **wants}
        asked.write_text(json.dumps(told))
        played = run_playbook(self.folder, PLAYBOOK, "--extra-vars", f"@{asked}", *arguments)
        self.engine_is_there |= played.returncode == 0 and "--check" not in arguments
        return played

    def serve(self, *instances: dict[str, Any], **wants: Any) -> Play:
        """Have these instances, which must be possible; the model is that of the tests unless one names another."""
        played = self.play(llama_instances=self.asked(*instances), **wants)
        assert played.returncode == 0, played.output
        return played

    def asked(self, *instances: dict[str, Any]) -> list[dict[str, Any]]:
        """These instances of the model of the tests, which keep no prompts: the machine may have little memory."""
        return [
            {"prompt_cache": "0MiB", **({} if "models" in one else {"model": self.model}), **one} for one in instances
        ]

    def refuse(self, *instances: dict[str, Any], **wants: Any) -> str:
        """Ask for instances that cannot be had; return the sentence that says so. Nothing was changed then."""
        before = self.state()
        played = self.play(llama_instances=self.asked(*instances), **wants)
        assert played.returncode == 2, played.output
        assert self.state() == before
        failed = [result for result in played.results if result["status"] == "failed"]
        assert len(failed) == 1 and not played.changed, played.output
        # A task with a loop tells of each item.
        return str(failed[0].get("results") or failed[0]["msg"])

    def refuse_each(self, *instances: dict[str, Any]) -> list[str]:
        """Ask for one instance after the other that cannot be had; return what is said of each. Nothing is changed."""
        before = self.state()
        told = json.dumps({"llama_binary": self.binary, "each": [self.asked(one) for one in instances]})
        played = run_playbook(self.folder, PLAYBOOK.with_name("refuse.yml"), "--extra-vars", told)
        assert played.returncode == 0 and not played.changed, played.output
        assert self.state() == before
        return [str(result["msg"]) for result in played.results if result["task"] == "Say what it says"]

    def state(self) -> str:
        """Return the units, and the processes that run for them."""
        return self.run("cat /etc/systemd/system/llama-*; systemctl show --property=Id,MainPID 'llama-*'", check=False)

    def run(self, command: str, check: bool = True, text: str = "") -> str:
        """Run a shell command as root and return what it printed."""
        return self.box.run(command, check=check, input=text).stdout

    def put(self, path: str, content: bytes) -> None:
        """Write a file, and make its folder."""
        self.run(f"mkdir -p {Path(path).parent}; base64 -d >{path}", text=base64.b64encode(content).decode())

    def pid(self, name: str) -> int:
        """Return the process of an instance; 0 where there is none."""
        return int(self.run(f"systemctl show --property=MainPID --value llama-{name}.service"))

    def ask(self, port: int, path: str, body: dict[str, Any] | None = None, key: str = "") -> tuple[int, str]:
        """Ask a server in the container; return the status and the text of its answer."""
        words = shlex.join(["python3", "-c", ASK, f"http://127.0.0.1:{port}{path}", key])
        status, dummy, text = self.run(words, text=json.dumps(body) if body else "").partition(" ")
        return int(status), text.rstrip("\n")

    def complete(self, port: int, prompt: str, tokens: int = 48) -> dict[str, Any]:
        """Have a server go on with a text, always in the same way."""
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "seed": 1, "cache_prompt": False}
        status, text = self.ask(port, "/completion", body)
        assert status == 200, text
        return dict(json.loads(text))

    def metric(self, port: int, name: str) -> float:
        """Return a number of /metrics."""
        lines = self.ask(port, "/metrics")[1].splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"llamacpp:{name} ")))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Host]:
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    build, model, (archive, asked) = llama.ensure_llama(), llama.ensure_model(), llama.source()
    binds = {build: BUILD, model.parent: MODELS, archive: asked["archive"]}
    with container(name, binds, {build.parent: llama.HOME}) as box:
        yield Host(box, tmp_path_factory.mktemp(name))
