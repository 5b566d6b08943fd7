# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user cannot add by hand, on every recorded server: what an option says, under all its names, and secrets."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import arguments as server_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import unsafe_flags
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import SERVERS, server

NEW = "b11434"


def refused(name: str, *words: str, **wants: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        server_arguments.build_arguments({"model": "/m", "extra": list(words), **wants}, server(name))
    return str(caught.value)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("flag", "option"),
    [
        ("--host", "host"),
        ("--port", "port"),
        ("-m", "model"),
        ("-c", "context"),
        ("-np", "slots"),
        ("-t", "threads"),
        ("--numa", "memory"),
        ("--no-mmap", "hugepages and lock"),
        ("-fa", "flash_attention"),
        ("--api-key-file", "api_key_file"),
        ("--api_key_file", "api_key_file"),
        ("--api-key-file=/etc/keys", "api_key_file"),
        ("-hfr", "model"),
        ("-md", "draft_model"),
        ("-ctkd", "draft_cache_type_k"),
        ("-cram", "prompt_cache"),
        ("--ctx-checkpoints", "checkpoints"),
        ("--mmproj", "projector"),
        ("--embedding", "task"),
    ],
)
def test_what_an_option_says_is_refused_under_all_its_names(name: str, flag: str, option: str) -> None:
    said = refused(name, "--top-k", "20", flag, "1")
    flag = flag.partition("=")[0].replace("--api_key_file", "--api-key-file")
    assert said == (
        f"extra_arguments: {flag} is set by the plan. Leave it out, and use the option {option} of the instance."
    )


@pytest.mark.parametrize("name", SERVERS)
def test_what_the_collection_needs_is_refused(name: str) -> None:
    assert "--metrics is always set by the collection" in refused(name, "--metrics")


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("words", [["--api-key", "a-secret"], ["--api_key", "a-secret"], ["--hf-token", "a-secret"]])
def test_a_secret_is_refused_and_not_repeated(name: str, words: list[str]) -> None:
    said = refused(name, *words)
    assert "would put a secret into a unit file that everyone on the host can read" in said
    assert "api_key_file" in said and "a-secret" not in said


def test_a_secret_under_its_short_name() -> None:
    assert "-hft would put a secret" in refused(NEW, "-hft", "a-secret")


@pytest.mark.parametrize(
    "words",
    [
        ["--top-k", "20", "--jinja"],
        ["--override-kv", "tokenizer.ggml.add_bos_token=bool:false"],
        ["--no-agent"],
        ["--cors-credentials"],
        ["--device", "none"],
    ],
)
def test_everything_else_stays_as_it_is(words: list[str]) -> None:
    wants = {"model": "/m", "experts": ("qwen3moe", 4), "extra": words}
    assert server_arguments.build_arguments(wants, server(NEW))[-len(words) :] == words


def test_how_tokens_are_chosen_is_the_plans_where_it_says_so() -> None:
    assert "use the option sampling of" in refused(NEW, "--temp", "1", temperature=0.7)


def test_devices_are_the_plans_where_a_second_process_drafts() -> None:
    wants = {"draft_model": "/d", "speculation": ["draft"], "rpc": "127.0.0.1:1"}
    assert "use the option draft_placement" in refused(NEW, "--device", "none", **wants)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("LLAMA_ARG_HOST", "LLAMA_ARG_HOST is set by the plan. Leave it out, and use the option host of"),
        ("LLAMA_ARG_API_KEY_FILE", "use the option api_key_file"),
        ("LLAMA_API_KEY", "LLAMA_API_KEY would put a secret"),
        ("HF_TOKEN", "HF_TOKEN would put a secret"),
        ("DB_PASSWORD", "DB_PASSWORD would put a secret"),
    ],
)
def test_variables_that_say_the_same(variable: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        server_arguments.refuse_reserved_or_secret_variables(
            {"GGML_X": "1", variable: "a-secret"}, {"model": "/m"}, server(NEW)
        )
    assert words in str(caught.value) and "a-secret" not in str(caught.value)


@pytest.mark.parametrize("name", SERVERS)
def test_other_variables_stay(name: str) -> None:
    server_arguments.refuse_reserved_or_secret_variables(
        {"OMP_WAIT_POLICY": "active", "LLAMA_CACHE": "/x"}, {"model": "/m"}, server(name)
    )


def test_which_builds_know_comments_in_a_file_of_keys() -> None:
    without = {"b9093", "ik-llama-cpp-python-0.1.5", "ik_llama.cpp-8337e4c"}
    assert {name for name in SERVERS if not server(name).allows_key_comments} == without


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--spec-default", "sets a kind of speculation in place of the planned one. Use the option speculation."),
        ("--api-prefix", "moves the paths at which the collection asks whether the server serves"),
        ("--ssl-key-file", "has the server speak TLS only"),
        ("--tools", "gives every client of the server programs, files or other servers"),
        ("--tools=all", "gives every client of the server programs, files or other servers"),
        ("-ag", "gives every client of the server programs, files or other servers"),
        ("--mcp-servers-json", "gives every client of the server programs, files or other servers"),
        ("--webui-mcp-proxy", "gives every client of the server programs, files or other servers"),
        ("--fim-qwen-7b-spec", "has the server load another model than the planned one, from the internet."),
        ("--embd-gemma-default", "has the server load another model than the planned one, from the internet."),
        ("-hfd", "has the server load a draft from the internet."),
        ("--spec-synth-len", "its answers are wrong"),
        ("-Cd", "moves threads of the draft to other CPUs"),
        ("--version", "has the server print something and end"),
        ("--list-devices", "has the server print something and end"),
    ],
)
def test_a_flag_that_harms_is_refused_under_all_its_names(flag: str, words: str) -> None:
    said = refused(NEW, "--top-k", "20", flag)
    assert said.startswith(f"extra_arguments: {flag.partition('=')[0]} ") and words in said


def test_a_variable_that_stands_for_such_a_flag() -> None:
    for variable in ("LLAMA_ARG_TOOLS", "LLAMA_ARG_AGENT", "LLAMA_ARG_API_PREFIX", "LLAMA_ARG_SSL_KEY_FILE"):
        with pytest.raises(BadRequest, match=f"extra_environment: {variable} "):
            server_arguments.refuse_reserved_or_secret_variables({variable: "1"}, {"model": "/m"}, server(NEW))


def test_each_flag_is_of_some_build() -> None:
    """A flag that no build has would be a misspelt one; a build may have it under another name only."""
    known = {flag for build in SERVERS for flag in server(build).options}
    assert unsafe_flags.REFUSED_FLAGS.keys() | unsafe_flags.REMARKED_FLAGS.keys() <= known


def test_a_flag_with_an_overlooked_effect_is_a_remark() -> None:
    said = unsafe_flags.list_flag_remarks(["--props", "--top-k"], {"LLAMA_ARG_STATIC_PATH": "/"}, server(NEW))
    assert said == [
        "extra_environment: with LLAMA_ARG_STATIC_PATH, everyone who can reach the server reads all files of this "
        "folder.",
        "extra_arguments: with --props, each client can change settings of the server for all other clients.",
    ]
    assert unsafe_flags.list_flag_remarks(["--top-k"], {"OMP_WAIT_POLICY": "active"}, server(NEW)) == []
