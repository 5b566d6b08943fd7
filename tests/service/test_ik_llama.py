# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real llama-server of ik_llama.cpp with a real model: it serves, guesses by each kind, and takes its own options.

No package has one of 2026, so this is for those who have built one: IK_LLAMA names the folder in which llama-server is.
What it is asked with is held against its recorded answers in the unit tests, always.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import heads
from vepyc.container import running_container
from vepyc.llama import llama_cpp

from ..fixtures.containers import MODELS, ServiceHost

IK = os.environ.get("IK_LLAMA", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IK, reason="IK_LLAMA is not set, and no package has a current ik_llama.cpp"),
]
PROMPT = "one two three four five six seven eight nine ten\n" * 3 + "one two three"
PLAIN = {"name": "plain", "port": 8080, "speculation": "none", "engine": "ik_llama.cpp"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    # With the usual one, in Q4_1, this server (8337e4c, AVX2) says one word again and again.
    model = llama_cpp.ensure_wide_model()
    with running_container("test-ik-llama", {Path(IK): "/opt/ik", model.parent: MODELS}) as box:
        host = ServiceHost(box, tmp_path_factory.mktemp("ik"))
        host.binary, host.model = "/opt/ik/llama-server", f"{MODELS}/{model.name}"
        yield host


def read_arguments(host, name):
    return host.run(f"tr '\\0' ' ' </proc/{host.main_pid(name)}/cmdline")


def test_it_guesses_by_each_kind_and_says_the_same(host):
    kinds = {
        "ngram": "ngram",
        "ngram-map": "ngram_map",
        "ngram-mod": "ngram_mod",
        "suffix": "suffix",
        "draft": "draft",
        "chain": ["ngram_mod", "draft"],
    }
    guessing = [
        {**PLAIN, "name": name, "port": port, "speculation": kind}
        for port, (name, kind) in enumerate(kinds.items(), 8081)
    ]
    for one in guessing[-2:]:
        one.update(draft_model=host.model, draft_max=3)
    host.serve(PLAIN, *guessing)
    told = host.complete_text(8080, PROMPT)
    assert told["content"].split()[:3] == ["four", "five", "six"]
    for one in guessing:
        said = host.complete_text(one["port"], PROMPT)
        assert said["content"] == told["content"], one
        assert said["timings"]["draft_n_accepted"] > 0, one


def test_texts_to_begin_with_are_looked_up(host):
    """An answer of before is guessed; a file that the server would leave out is refused."""
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


def test_a_head_and_fewer_experts(host):
    """Made for models that always say the same letter; beside a draft, this engine may stop up to two tokens early."""
    for name in ("model", "dflash", "dflash_draft", "experts"):
        host.write_file(f"/srv/own/{name}.gguf", getattr(heads, name)())
    small = {**PLAIN, "model": "/srv/own/model.gguf", "context": 512}
    head = {**small, "speculation": "dflash", "draft_model": "/srv/own/dflash_draft.gguf", "draft_max": 3}
    fewer = {**small, "name": "fewer", "port": 8090, "model": "/srv/own/experts.gguf", "experts": 1}
    assert "architecture is dflash. Name a file of the" in host.expect_refusal(
        {**head, "draft_model": "/srv/own/dflash.gguf"}
    )
    host.serve(head, fewer)
    said = host.complete_text(8080, "abc", 24)
    assert said["content"] in ("C" * 22, "C" * 23, "C" * 24)
    assert 0 < said["timings"]["draft_n_accepted"] == said["timings"]["draft_n"]
    assert host.complete_text(8090, "abc", 24)["content"] == "C" * 24
    assert "--smart-expert-reduction 1,1" in read_arguments(host, "fewer")
    assert "ser           = 1, 1" in host.run("journalctl --no-pager -u llama-fewer")
    host.serve(PLAIN)


def test_it_takes_its_own_options(host):
    own = {
        "mla": 3,
        "attention_buffer": 512,
        "fused_moe": True,
        "repack": True,
        "hugepages": "thp",
        "flash_attention": "on",
    }
    told = host.complete_text(8080, PROMPT)["content"]
    host.serve({**PLAIN, **own})
    said = read_arguments(host, "plain")
    assert "--mla-use 3 --attention-max-batch 512" in said and "--run-time-repack" in said
    assert host.complete_text(8080, PROMPT)["content"].split()[:8] == told.split()[:8]
    assert host.serve({**PLAIN, **own}).changed_results == {}


def test_what_it_has_not_is_refused(host):
    head = {"speculation": "mtp", "draft_max": 2}
    assert "has no layers that guess the next tokens" in host.expect_refusal({**PLAIN, **head})
    assert "is ik_llama.cpp, but engine is llama.cpp" in host.expect_refusal({**PLAIN, "engine": "llama.cpp"})
    host.serve()
