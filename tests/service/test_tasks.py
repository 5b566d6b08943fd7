# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tasks of instances of the real llama-server, and the first answer without which no server counts as serving."""

from __future__ import annotations

import json
import math
import time

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.tests.unit.fakes import heads

from .test_llama_verify import verify_instances

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080, "context": 2048, "restart_limit": 100}
UNIT = "/etc/systemd/system/llama-chat.service"
MODELS = "/var/lib/models"
#: More tokens than a physical batch of llama-server has by default.
LONG_TEXT = "The river runs past seven old mills. " * 100


@pytest.fixture(scope="module", autouse=True)
def models(service_host):
    service_host.write_file(f"{MODELS}/ranks.gguf", heads.ranks())
    service_host.write_file(f"{MODELS}/zeros.gguf", zero_model.build_zero_model_file())
    # The first run installs the host tool.
    service_host.serve(CHAT)


def read_journal(service_host, since=""):
    return service_host.run(f"journalctl --quiet --no-pager --output=cat --unit=llama-chat {since}")


def embed(service_host, text):
    return service_host.send_request(8080, "/v1/embeddings", {"input": text})


def test_a_generating_model_needs_a_pooling(service_host):
    said = service_host.expect_refusal({**CHAT, "task": "embedding"})
    assert f"task embedding: {service_host.model} does not state how" in said and "'pooling: last'" in said
    service_host.serve({**CHAT, "task": "embedding", "pooling": "last"})
    status, text = embed(service_host, "a river")
    assert status == 200, text
    assert math.isclose(sum(number**2 for number in json.loads(text)["data"][0]["embedding"]), 1, abs_tol=1e-3)
    assert "http://127.0.0.1:8080 has answered." in read_journal(service_host)


def test_a_text_may_be_as_long_as_the_context(service_host):
    service_host.serve({**CHAT, "task": "embedding", "pooling": "mean"})
    status, text = embed(service_host, LONG_TEXT)
    assert status == 200, text
    assert json.loads(text)["usage"]["prompt_tokens"] > 512


def test_a_chat_model_ranks_nothing(service_host):
    said = service_host.expect_refusal({**CHAT, "task": "rerank"})
    assert f"task rerank: {service_host.model} has no head for scores" in said
    service_host.serve({**CHAT, "task": "rerank", "model": f"{MODELS}/ranks.gguf"})
    answer = service_host.fetch_json(8080, "/v1/rerank", {"query": "a", "documents": ["b", "c"]})
    assert len(answer["results"]) == 2


def test_a_server_that_refuses_its_task_is_wrong(service_host):
    service_host.serve({**CHAT, "task": "embedding", "pooling": "mean"})
    service_host.run(
        f"sed -i -e 's/ --pooling mean//' -e '/llama await/d' {UNIT}; systemctl daemon-reload; "
        "systemctl restart llama-chat"
    )
    service_host.run("until ss -ltn | grep -q :8080; do sleep 0.1; done")
    while service_host.fetch_status(8080, "/health") != 200:
        time.sleep(0.1)
    assert embed(service_host, "a")[0] == 400
    items, dummy = verify_instances(service_host)
    assert items["service/chat"]["verdict"] == "wrong"
    assert (
        "refuses each request of its task embedding: /v1/embeddings answers 400: Pooling type 'none'"
        in (items["service/chat"]["sentence"])
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"extra_arguments": ["--override-kv", "llama.context_length=int:0"]},
            "The server ended or hung up at its first request.",
        ),
        ({"model": f"{MODELS}/zeros.gguf"}, "all tokens of its vocabulary are equally probable"),
    ],
)
@pytest.mark.parametrize("order", ["stop_first", "start_first"])
def test_a_server_that_does_not_compute_does_not_replace_the_running_one(service_host, asked, words, order):
    """Health is green with both, and nothing of their files says what is wrong."""
    service_host.serve(CHAT)
    before = service_host.complete_text(8080, "The river")["content"]
    played = service_host.run_role(
        epyc_llama_instances=service_host.with_test_model({**CHAT, **asked, "update_order": order})
    )
    assert played.returncode == 2 and words in played.output, played.output
    assert "does not serve: 3 tokens were requested of it" in played.output.partition("The journal ends")[0]
    assert service_host.complete_text(8080, "The river")["content"] == before
