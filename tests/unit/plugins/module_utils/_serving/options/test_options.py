# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS, Options

LEAST = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080}
DRAFT = {**LEAST, "speculation": "draft", "draft_model": "/srv/d.gguf"}


def test_what_is_not_said() -> None:
    found = Options.parse(LEAST)
    assert (found.host, found.engine, found.context, found.slots) == ("127.0.0.1", None, 8192, 1)
    assert (found.speculation, found.ngram_lookup, found.ngram_max, found.ngram_min_hits) == (("ngram",), 6, None, 1)
    assert (found.draft_max, found.draft_p_min, found.draft_placement) == (None, None, "shared")
    assert (found.memory, found.hugepages, found.lock, found.user) == (None, "none", False, None)
    assert not found.uses_draft


def test_values_come_in_their_types() -> None:
    found = Options.parse(
        {**DRAFT, "port": "9000", "draft_p_min": "0.5", "cpus": ["draft", "verify"], "extra_environment": {"A": 1}}
    )
    assert (found.port, found.draft_p_min, found.cpus, found.extra_environment) == (
        9000,
        0.5,
        "draft,verify",
        {"A": "1"},
    )
    assert Options.parse({**LEAST, "extra_arguments": ["--top-k", 20]}).extra_arguments == ("--top-k", "20")
    assert found.uses_draft
    found = Options.parse({**LEAST, "sampling": {"top_k": "20", "temperature": "1"}})
    assert list(found.sampling.items()) == [("temperature", 1.0), ("top_k", 20)]


@pytest.mark.parametrize("raw", [LEAST, DRAFT, {**LEAST, "extra_arguments": ["-x"], "lock": True, "bandwidth": 280.5}])
def test_a_module_takes_what_an_instance_takes(raw: dict[str, Any]) -> None:
    result = ArgumentSpecValidator(options.Options.argument_spec()).validate(raw)
    assert result.error_messages == []
    through, directly = Options.parse(result.validated_parameters), Options.parse(raw)
    assert all(getattr(through, key) == getattr(directly, key) for key in FIELDS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modle": 1}, "no option 'modle'; did you mean model?"),
        ({"model": None}, "model is missing: an instance needs a model, or several by name in models."),
        ({"port": None}, "port is missing: an instance needs name, port, binary"),
        ({"name": "Chat"}, "name is 'Chat'; say a name of small letters"),
        ({"name": "a/../b"}, "say a name of small letters"),
        ({"name": "a\n"}, "control character"),
        ({"port": 80}, "port is '80'; say a whole number from 1024 to 65535"),
        ({"port": True}, "port is 'True'"),
        ({"port": "8080.5"}, "say a whole number"),
        ({"bandwidth": "nan"}, "say a number from 1"),
        ({"threads": 0}, "threads is '0'"),
        ({"slots": 0}, "say a whole number from 1 up"),
        ({"lock": "yes"}, "say true or false"),
        ({"engine": "vllm"}, "say one of llama.cpp, ik_llama.cpp"),
        ({"memory": "copies"}, "say one of bind, interleave, distribute, rows, mirror, local"),
        *(
            ({"memory": "mirror", key: value}, "memory mirror has the server itself copy the weights to every node")
            for key, value in (("nodes", "0"), ("lock", True), ("hugepages", "thp"), ("hugepages", "hugetlbfs"))
        ),
        ({"model": "m.gguf"}, "say the whole path"),
        ({"alias": ""}, "alias is empty"),
        ({"host": "a b"}, "host is 'a b'"),
        ({"user": "root"}, "the server needs no such rights"),
        ({"user": "me:you"}, "say the name of a system user"),
        ({"binary": "/opt/$HOME/llama-server"}, "runs no program with a $ in its path"),
        ({"extra_arguments": "--top-k 20"}, "must be a list of words"),
        ({"extra_arguments": ["a\0b"]}, "control character"),
        ({"extra_environment": ["A=1"]}, "must be a dictionary"),
        ({"extra_environment": {"A B": "1"}}, "'A B' is not a name of an environment variable"),
        ({"adapters": ["/srv/a.gguf"]}, "adapters must be a dictionary of files and their scales"),
        ({"adapters": {"a.gguf": 1}}, "adapters: 'a.gguf' is no path that the server takes"),
        ({"adapters": {"/srv/a,b.gguf": 1}}, "it must have no comma and no colon"),
        ({"adapters": {"/srv/a.gguf": "much"}}, "adapters: the scale of /srv/a.gguf is 'much'; say a number"),
        ({"adapters": {"/srv/a.gguf": True}}, "the scale of /srv/a.gguf is 'True'"),
        (
            {"suffix_corpus": "/c.json"},
            "suffix_corpus has no effect, because speculation is ngram: say suffix, or leave",
        ),
        ({"chat_template": "/t.jinja", "task": "embedding"}, "task is embedding, which has no conversations"),
        ({"sampling": 0.7}, "sampling must be a dictionary, as {temperature: 0.7, top_p: 0.8}, not '0.7'"),
        ({"catalogue_model": {"name": 1}}, "catalogue_model is '{'name': 1}'; the role epyc_llama sets it, so leave"),
        ({"catalogue_model": {"who": "x"}}, "catalogue_model is '{'who': 'x'}'; the role epyc_llama sets it"),
        ({"sampling": {"temp": 0.7}}, "sampling has no 'temp'; it takes temperature, top_k"),
        ({"sampling": {"top_p": 80}}, "sampling: top_p is '80'; say a number from 0 to 1"),
        ({"sampling": {"top_k": 2.5}}, "sampling: top_k is '2.5'; say a whole number from 0"),
        ({"sampling": {"top_k": True}}, "sampling: top_k is 'True'"),
        ({"sampling": {"min_p": "nan"}}, "sampling: min_p is 'nan'; say a number"),
        ({"sampling": {"top_k": 20}, "task": "rerank"}, "task is rerank, which chooses no tokens: leave sampling out"),
        ({"draft_cache_type_k": "q8_0"}, "draft_cache_type_k has no effect, because speculation is ngram"),
        ({"speculation": "draft"}, "speculation is draft, which needs a draft_model"),
        ({"draft_model": "/srv/d.gguf"}, "draft_model has no effect, because speculation is ngram"),
        ({"draft_max": 5}, "draft_max has no effect"),
        ({"ngram_lookup": 9, "ngram_max": 8}, "ngram_max is 8 and ngram_lookup 9: the server never guesses fewer"),
        ({**DRAFT, "draft_cpus": "socket1"}, "draft_cpus has no effect with draft_placement shared"),
        ({"direct_io": True, "lock": True}, "direct_io reads the weights past the page cache"),
        ({"direct_io": True, "memory": "rows"}, "direct_io reads the weights past the page cache"),
        ({"direct_io": True, "hugepages": "hugetlbfs"}, "direct_io reads the weights past the page cache"),
        ({"repack": True, "hugepages": "hugetlbfs"}, "hugepages hugetlbfs needs the mapped file"),
        ({"repack": True, "memory": "distribute"}, "memory distribute needs the mapped file"),
        ({"repack_at_start": True, "hugepages": "hugetlbfs"}, "repack_at_start copies the weights into memory"),
        ({"repack_at_start": True, "memory": "distribute"}, "memory distribute needs the mapped file"),
        ({"memory": "rows", "lock": True}, "memory rows has each part of the mapped file read"),
        (
            {"speculation": "magic"},
            "speculation is 'magic'; say one or several of ngram, ngram_map, ngram_mod, suffix, draft",
        ),
        ({"speculation": "ngram,ngram"}, "say each kind once, and none only by itself"),
        ({"speculation": ["none", "ngram"]}, "say each kind once, and none only by itself"),
        ({"speculation": ["ngram_mod", "draft"]}, "speculation is ngram_mod,draft, which needs a draft_model"),
        ({"hugepages": "pool", "lock": True}, "never swapped out, so leave lock out"),
        ({"memory": "distribute", "hugepages": "thp"}, "take interleave, or leave them out"),
        ({**DRAFT, "draft_placement": "own_ccd"}, "set rpc_port to its port"),
        ({**DRAFT, "draft_placement": "own_ccd", "rpc_port": 8080}, "set rpc_port to its port"),
    ],
)
def test_what_makes_no_sense(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Options.parse({**LEAST, **change})
    assert words in str(caught.value)


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.just({}))


@given(raw=st.dictionaries(st.sampled_from(list(FIELDS)), ANYTHING))
def test_anything_is_taken_or_refused_with_a_sentence(raw: dict[str, Any]) -> None:
    try:
        Options.parse({**LEAST, **raw})
    except BadRequest as refusal:
        assert str(refusal).endswith(".")
