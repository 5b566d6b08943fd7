# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real llama-server of ik_llama.cpp with a real model: it serves, guesses by each kind, and takes its own options.

It is built from a Python package of early 2026. IK_LLAMA names the folder of another llama-server: one of August 2026
also has suffixes, chains and heads. The arguments for both are held against their recorded answers in the unit tests.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import parse_capabilities
from ansible_collections.sovereign.epyc.tests.unit.fakes import heads
from vepyc.container import running_container
from vepyc.llama import llama_cpp

from ..fixtures.containers import BUILD, MODELS, ServiceHost

pytestmark = pytest.mark.slow
PROMPT = "one two three four five six seven eight nine ten\n" * 3 + "one two three"
PLAIN = {"name": "plain", "port": 8080, "speculation": "none", "engine": "ik_llama.cpp"}
IK_FOLDER = "/opt/ik"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    # With the usual one, in Q4_1, the server of August 2026 (8337e4c, AVX2) says one word again and again.
    model = llama_cpp.ensure_wide_model()
    build = Path(os.environ["IK_LLAMA"]) if "IK_LLAMA" in os.environ else llama_cpp.ensure_ik_llama() / "bin"
    binds = {build: IK_FOLDER, llama_cpp.ensure_llama(): BUILD, model.parent: MODELS}
    with running_container("test-ik-llama", binds) as box:
        host = ServiceHost(box, tmp_path_factory.mktemp("ik"))
        host.binary, host.model = f"{IK_FOLDER}/llama-server", f"{MODELS}/{model.name}"
        yield host


@pytest.fixture(scope="module")
def kinds(host):
    """Return the kinds of speculation that the server has."""
    offered = parse_capabilities(host.run(f"{host.binary} --help", check=False), "").offered_values("--spec-type")
    return {kind.replace("ngram-simple", "ngram").replace("-map-k", "-map") for kind in offered}


def read_arguments(host, name):
    return host.run(f"tr '\\0' ' ' </proc/{host.main_pid(name)}/cmdline")


def test_it_guesses_by_each_kind_and_counts_on(host, kinds):
    """The counted words are certain. Behind them two tokens may be about as probable, and batches round otherwise."""
    speculation = {"ngram": "ngram", "ngram-map": "ngram_map", "ngram-mod": "ngram_mod", "draft": "draft"}
    speculation.update({"suffix": "suffix", "chain": ["ngram_mod", "draft"]} if "suffix" in kinds else {})
    guessing = [
        {**PLAIN, "name": name, "port": port, "speculation": kind}
        for port, (name, kind) in enumerate(speculation.items(), 8081)
    ]
    for one in guessing:
        if "draft" in one["speculation"]:
            one.update(draft_model=host.model, draft_max=3)
    host.serve(PLAIN, *guessing)
    counted = ["four", "five", "six", "seven", "eight", "nine", "ten"]
    assert host.complete_text(8080, PROMPT)["content"].split()[:7] == counted
    for one in guessing:
        said = host.complete_text(one["port"], PROMPT)
        assert said["content"].split()[:7] == counted, one
        # This build of early 2026 counts its guesses in the log only.
        log = host.run(f"journalctl --unit=llama-{one['name']} --output=cat")
        assert sum(map(int, re.findall(r"(\d+) accepted", log))) > 0, (one, said)


def test_texts_to_begin_with_are_looked_up(host, kinds):
    """An answer of before is guessed; a file that the server would leave out is refused."""
    if "suffix" not in kinds:
        pytest.skip("this build has no suffixes; IK_LLAMA names one of August 2026")
    corpus = "/srv/own/one, two.json"
    asked = {**PLAIN, "speculation": "suffix", "suffix_corpus": corpus}
    host.run(f"mkdir -p /srv/own && echo '[]' >'{corpus}'")
    assert "has no text" in host.expect_refusal(asked)
    prompt = "Once upon a time there was"
    told = host.complete_text(8080, prompt)
    host.run(f"cat >'{corpus}'", text=json.dumps([prompt + told["content"]]))
    host.serve(asked)
    said = host.complete_text(8080, prompt)
    # Later words may be others, as several tokens at once are rounded otherwise.
    assert said["content"].split()[:12] == told["content"].split()[:12], said
    assert said["timings"]["draft_n_accepted"] > 0, said
    assert host.serve(asked).changed_results == {}
    # Other texts are another start.
    before = host.main_pid("plain")
    host.run(f"cat >'{corpus}'", text='["another text"]')
    host.serve(asked)
    assert host.main_pid("plain") != before
    assert "draft_n_accepted" not in host.complete_text(8080, prompt)["timings"]


def test_a_head(host, kinds):
    """Made for a model that always says the same letter; with a draft, this engine may stop up to two tokens early."""
    if "dflash" not in kinds:
        pytest.skip("this build has no heads; IK_LLAMA names one of August 2026")
    for name in ("model", "dflash", "dflash_draft"):
        host.write_file(f"/srv/own/{name}.gguf", getattr(heads, name)())
    small = {**PLAIN, "model": "/srv/own/model.gguf", "context": 512}
    head = {**small, "speculation": "dflash", "draft_model": "/srv/own/dflash_draft.gguf", "draft_max": 3}
    assert "architecture is dflash. Name a file of the" in host.expect_refusal(
        {**head, "draft_model": "/srv/own/dflash.gguf"}
    )
    host.serve(head)
    said = host.complete_text(8080, "abc", 24)
    assert said["content"] in ("C" * 22, "C" * 23, "C" * 24)
    assert 0 < said["timings"]["draft_n_accepted"] == said["timings"]["draft_n"]


def test_fewer_experts(host):
    """Made for a model that always says the same letter."""
    host.write_file("/srv/own/experts.gguf", heads.experts())
    host.serve({**PLAIN, "name": "fewer", "port": 8090, "model": "/srv/own/experts.gguf", "context": 512, "experts": 1})
    assert host.complete_text(8090, "abc", 24)["content"] == "C" * 24
    assert "--smart-expert-reduction 1,1" in read_arguments(host, "fewer")
    assert "ser           = 1, 1" in host.run("journalctl --no-pager -u llama-fewer")


def test_it_takes_its_own_options(host):
    own = {"mla": 3, "attention_buffer": 512, "fused_moe": True, "hugepages": "thp", "flash_attention": "on"}
    host.serve(PLAIN)
    told = host.complete_text(8080, PROMPT)["content"]
    host.serve({**PLAIN, **own})
    assert "--mla-use 3 --attention-max-batch 512" in read_arguments(host, "plain")
    assert host.complete_text(8080, PROMPT)["content"].split()[:8] == told.split()[:8]
    assert host.serve({**PLAIN, **own}).changed_results == {}


def test_it_repacks_at_its_start(host):
    """The weights are read and not mapped; verify finds the instance as planned, and the option can be taken back."""
    host.serve(PLAIN)
    told = host.complete_text(8080, PROMPT)["content"]
    repacking = {**PLAIN, "repack_at_start": True}
    played = host.serve(repacking, then_verify=True)
    said = read_arguments(host, "plain")
    assert "--run-time-repack" in said and "--no-mmap" in said
    assert "Repacked" in host.run("journalctl --no-pager -u llama-plain")
    assert host.model not in host.run(f"cat /proc/{host.main_pid('plain')}/maps")
    assert host.complete_text(8080, PROMPT)["content"].split()[:8] == told.split()[:8]
    items = {item["name"]: item for item in played["Verify"]["checklist"] if item["name"].endswith("/plain")}
    assert items["service/plain"]["verdict"] == "ok", items
    assert not [item for item in items.values() if item["verdict"] == "wrong"], items
    assert host.serve(repacking).changed_results == {}
    host.serve(PLAIN)
    assert "--run-time-repack" not in read_arguments(host, "plain")
    assert host.complete_text(8080, PROMPT)["content"] == told


def test_it_follows_llama_cpp_at_its_port_and_is_followed_by_it(host):
    """Right after requests, whose connections have just ended."""
    for _ in range(2):
        host.serve({**PLAIN, "engine": "llama.cpp", "binary": f"{BUILD}/bin/llama-server"})
        assert host.complete_text(8080, PROMPT)["content"].split()[:3] == ["four", "five", "six"]
        host.serve(PLAIN)
        assert host.complete_text(8080, PROMPT)["content"].split()[:3] == ["four", "five", "six"]


def test_what_is_taken_out_leaves_nothing(host):
    host.serve(PLAIN)
    host.serve()
    assert host.run("ls /etc/systemd/system").count("llama-") == 0


def test_what_it_has_not_is_refused(host):
    head = {"speculation": "mtp", "draft_max": 2}
    assert "has no layers that guess the next tokens" in host.expect_refusal({**PLAIN, **head})
    assert "is ik_llama.cpp, but engine is llama.cpp" in host.expect_refusal({**PLAIN, "engine": "llama.cpp"})
    host.serve()
