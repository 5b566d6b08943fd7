# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/recommend.yml on the machine that the tests run on: what it prints, when it writes, and what it refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

PLAYBOOK = "playbooks/recommend.yml"
HERE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
MINE = "# mine\n"


class Controller:
    """An inventory with this machine in it, twice, and a small model."""

    def __init__(self, run: Callable[..., str], folder: Path) -> None:
        self.run = run
        self.inventory = folder / "inventory"
        self.file = self.inventory / "host_vars/here.yml"
        self.file.parent.mkdir(parents=True)
        hosts = {"epyc_servers": {"hosts": {"here": HERE, "again": HERE}}}
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))
        self.model = folder / "model.gguf"
        self.model.write_bytes(ggufs.WHOLE)

    def play(self, *arguments: str, playbook: str = PLAYBOOK, limit: str = "here") -> str:
        return self.run("ansible-playbook", "-i", str(self.inventory), playbook, "-l", limit, *arguments)

    def refused(self, *arguments: str, limit: str = "here") -> str:
        """Return the output of a run that fails, without the line breaks in it, and see that no file came of it."""
        with pytest.raises(pytest.fail.Exception) as caught:
            self.play(*arguments, limit=limit)
        assert not self.file.exists()
        return " ".join(str(caught.value).split())

    def extra(self, **more: str) -> list[str]:
        return [word for key, text in more.items() for word in ("-e", f"epyc_recommend_{key}={text}")]


@pytest.fixture
def controller(run: Callable[..., str], tmp_path: Path) -> Controller:
    return Controller(run, tmp_path)


@pytest.mark.slow
def test_what_it_writes(controller: Controller, run: Callable[..., str]) -> None:
    """Nothing with --check, a file for each host when it is told, and no file that is there already."""
    each = controller.file.with_name("{{ inventory_hostname }}.yml")
    asked = controller.extra(models=str(controller.model), write=str(each))
    said = controller.play("--check", *asked)
    assert "epyc_llama_instances:" in said and "# Its weights cost" in said
    assert not controller.file.exists()
    controller.play(*asked, limit="all")
    written = controller.file.read_text()
    # How much memory is free, which a reason tells, changes from one run to the next.
    assert variables_without_cache(controller.file.with_name("again.yml").read_text()) == variables_without_cache(
        written
    )
    (instance,) = yaml.safe_load(written)["epyc_llama_instances"]
    assert instance["model"] == str(controller.model)
    run("yamllint", "--strict", str(controller.file))
    controller.file.write_text(MINE)
    with pytest.raises(pytest.fail.Exception, match="is there already, and is left as it"):
        controller.play(*asked)
    assert controller.file.read_text() == MINE
    controller.play(*asked, *controller.extra(overwrite="true"))
    assert variables_without_cache(controller.file.read_text()) == variables_without_cache(written)


@pytest.mark.slow
def test_a_file_of_another_run_that_appears_meanwhile_is_left_as_it_is(controller: Controller) -> None:
    """The second of two runs for one file has looked before the first one has written."""
    other_run = f"{{{{ lookup('pipe', 'echo \\# mine > {controller.file}; echo chat') }}}}"
    asked = controller.extra(models=str(controller.model), write=str(controller.file))
    with pytest.raises(pytest.fail.Exception, match="has appeared meanwhile, and is left as it is"):
        controller.play(*asked, "-e", f'epyc_recommend_use="{other_run}"')
    assert controller.file.read_text() == MINE


def variables_without_cache(text: str) -> dict[str, object]:
    """Return the variables without the size of the prompt cache, which is what memory is free at that moment."""
    found = dict(yaml.safe_load(text))
    for instance in found["epyc_llama_instances"]:
        instance.pop("prompt_cache", None)
    return found


@pytest.mark.slow
def test_what_the_host_can_serve(controller: Controller) -> None:
    """Without models, the catalogue is judged, and one of the user's entries with it."""
    shape = {"architecture": "llama", "quantization": "Q4_0", "parameters": 1000, "layers": 1}
    shape |= {"kv_bytes_per_token": 64, "trained_context": 4096}
    mine = {"url": "https://models.example.com/tiny.gguf", "parts": [{"sha256": "a" * 64, "size": 600}], "shape": shape}
    extra = {"epyc_llama_catalogue": {"my-tiny-model": mine}, "epyc_recommend_rate": 1}
    said = controller.play("-e", yaml.safe_dump(extra, default_flow_style=True, width=10_000).strip())
    assert "For each user: 1 tokens per second, 8192 tokens of conversation." in said
    assert "my-tiny-model" in said and "at the quality of a dense 70B" in " ".join(said.split())


def test_what_it_refuses(controller: Controller) -> None:
    write = controller.extra(write=str(controller.file))
    assert "say with epyc_recommend_models which models the host shall serve" in controller.refused(*write)
    said = controller.refused(*controller.extra(models=str(controller.model)), *write, limit="all")
    assert "epyc_recommend_write is one file, and there are 2 hosts." in said
