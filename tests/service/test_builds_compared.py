# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another build of llama.cpp is judged before it is rolled out: two real builds, one page, which Chromium shows.

The build of the guests computes without vectors, so that it is slower by far on any machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.pictures.chromium import Page
from vepyc.container import running_container
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import PlaybookRun, run_playbook

from ..fixtures.containers import BUILD, MODELS, ServiceHost

pytestmark = pytest.mark.slow

SLOW_BUILD = "/opt/without-vectors"
INSTANCE = {"name": "chat", "port": 8080, "context": 2048, "slots": 1, "speculation": "none"}
PROMPTS = json.dumps({"text": "one two three four five six seven eight nine ten\n" * 2, "output_length": 64})


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[PlaybookRun, Path]:
    """Return the run of ablation.yml with the slow build as an arm, and the folder with its JSON file."""
    builds = {llama_cpp.ensure_llama(): BUILD, llama_cpp.ensure_llama(llama_cpp.GUEST): SLOW_BUILD}
    binds = {**builds, llama_cpp.ensure_model().parent: MODELS}
    with running_container("builds-compared", binds) as box:
        host = ServiceHost(box, tmp_path_factory.mktemp("builds"))
        host.run("cat >/srv/prompts.jsonl", text=f"{PROMPTS}\n")
        host.serve(INSTANCE)
        before = host.main_pid("chat"), host.run("sed -n /^ExecStart=/p /etc/systemd/system/llama-chat.service")
        asked = {
            "epyc_llama_instances": host.with_test_model(INSTANCE),
            "epyc_llama_binary": host.binary,
            "epyc_ablation_arms": [{"binary": f"{SLOW_BUILD}/bin/llama-server"}],
            "epyc_ablation_prompts": "/srv/prompts.jsonl",
            "epyc_ablation_minutes": 15,
            "epyc_ablation_seed": 1,
            "epyc_ablation_folder": str(host.folder / "runs"),
        }
        # Ansible runs on the CPUs that are measured, and each of its polls takes time there.
        played = run_playbook(host.folder, "playbooks/ablation.yml", "-e", json.dumps(asked), poll_seconds=0.5)
        assert host.main_pid("chat") and host.main_pid("chat") != before[0], played.output
        assert host.run("sed -n /^ExecStart=/p /etc/systemd/system/llama-chat.service") == before[1]
        return played, host.folder


def test_a_slower_build_is_not_to_be_rolled_out(compared: tuple[PlaybookRun, Path]) -> None:
    played, dummy = compared
    result = played["Remove one setting at a time"]["results"][0]
    assert "do not roll out" in result["text"], result["text"]
    assert played.returncode == 2 and result["losses"], played.output


def test_its_page_is_shown_by_a_browser(compared: tuple[PlaybookRun, Path]) -> None:
    dummy, folder = compared
    (document,) = (folder / "runs").glob("*.json")
    page = folder / "page.html"
    words = {"epyc_analyse_file": str(document), "epyc_analyse_page": str(page)}
    played = run_playbook(folder, "playbooks/analyse.yml", "-e", json.dumps(words))
    assert played.returncode == 0, played.output
    with Page() as browser:
        browser.open_file(page)
        text = browser.evaluate_javascript("document.body.innerText")
        assert "do not roll out" in text and "without-vectors" in text, text
        assert browser.requested_addresses() == [page.as_uri()]


def test_a_comparison_of_its_arms_fails_for_the_loss(compared: tuple[PlaybookRun, Path]) -> None:
    dummy, folder = compared
    (document,) = (folder / "runs").glob("*.json")
    played = run_playbook(folder, "playbooks/compare.yml", "-e", json.dumps({"epyc_compare_files": [str(document)]}))
    assert played.returncode == 2 and "decode" in played.output and "proven loss" in played.output, played.output
