# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real llama-server speculates, by the text so far, by heads and by draft models, and its answers stay the same."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import heads
from vepyc.llama import llama_cpp

from ..fixtures.containers import REPETITIVE_PROMPT

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
#: The name of the test model in the catalogue of the role.
NAME = "smollm2-135m-q4"


def test_it_speculates_and_says_the_same(service_host):
    """The server speculates by the text so far, by tables of it, and by a draft model, which here is the model itself.

    The draft is named as in the catalogue of the role, so the file of the tests has the checksum that is there.
    """
    draft = {"speculation": "draft", "draft_model": NAME, "draft_max": 3, "draft_cache_type_k": "q8_0"}
    plain = {"name": "plain", "port": 8081, "speculation": "none"}
    tables = [
        {"name": kind, "port": port, "speculation": kind} for port, kind in ((8083, "ngram_map"), (8084, "ngram_mod"))
    ]
    service_host.serve(
        CHAT, plain, {"name": "draft", "port": 8082, **draft}, *tables, epyc_llama_models=[{"name": NAME}]
    )
    told = service_host.complete_text(8081, REPETITIVE_PROMPT)
    assert "draft_n" not in told["timings"]
    for port in (8080, 8082, 8083, 8084):
        accepted = service_host.read_metric(port, "spec_decode_num_accepted_tokens_total")
        assert service_host.complete_text(port, REPETITIVE_PROMPT)["content"] == told["content"]
        assert service_host.read_metric(port, "spec_decode_num_accepted_tokens_total") > accepted
    assert told["content"].split()[:3] == ["four", "five", "six"]


def test_heads_guess_too(service_host):
    """The models of these heads always answer with the same letter, so every draft is accepted."""
    made = {"target": heads.model(), "eagle3": heads.eagle3(), "dflash": heads.dflash(), "mtp": heads.with_mtp()}
    paths = {name: f"/srv/heads/{name}.gguf" for name in made}
    for name, content in made.items():
        service_host.write_file(paths[name], content)
    instances = [
        {"name": kind, "port": port, "speculation": kind, "draft_max": 3, "model": paths["target"], "context": 512}
        for port, kind in enumerate(("eagle3", "dflash", "mtp"), 8082)
    ]
    for one in instances[:2]:
        one["draft_model"] = paths[one["name"]]
    instances[2]["model"] = paths["mtp"]
    service_host.serve(CHAT, *instances)
    for one in instances:
        told = service_host.complete_text(one["port"], "abc", 24)
        assert told["content"] == "C" * 24
        assert 0 < told["timings"]["draft_n_accepted"] == told["timings"]["draft_n"]
    said = service_host.expect_refusal({**CHAT, "speculation": "eagle3", "draft_model": paths["eagle3"]})
    assert "it was made for a model of the width 256, and this one has 576" in said


def test_drafts_are_made_of_a_model_and_their_acceptance_is_told(service_host):
    """The smaller of two drafts of a model is accepted less often, as the answers show."""
    service_host.run("mkdir -p /srv/made")
    paths = {kind: f"/srv/made/{kind}.gguf" for kind in ("Q8_0", "Q2_K")}
    dummy, asked = llama_cpp.build_request()
    wants = {
        "epyc_llama_install": "source",
        "epyc_llama_source_archive": asked["archive"],
        "epyc_llama_source_checksum": asked["checksum"],
        "epyc_llama_cmake_options": asked["cmake_options"],
        "epyc_llama_quantized": [
            {"source": service_host.model, "path": path, "type": kind, "requantize": True}
            for kind, path in paths.items()
        ],
    }
    drafting = {"speculation": "draft", "draft_max": 3, "draft_p_min": 0}
    instances = [
        {"name": kind.lower(), "port": port, "draft_model": path, **drafting}
        for port, (kind, path) in enumerate(paths.items(), 8081)
    ]
    service_host.serve(CHAT, *instances, **wants)
    shares = {}
    for kind, one in zip(paths, instances, strict=True):
        told = service_host.complete_text(one["port"], "The sea was calm, and the old man")["timings"]
        shares[kind] = told["draft_n_accepted"] / told["draft_n"]
    print("accepted of the drafts:", {kind: f"{share:.2f}" for kind, share in shares.items()})
    assert 0 < shares["Q2_K"] < shares["Q8_0"] <= 1
    assert service_host.serve(CHAT, *instances, **wants).changed_results == {}
