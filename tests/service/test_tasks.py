# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tasks of instances of the real llama-server, and the first answer without which no server counts as serving."""

from __future__ import annotations

import json
import math
import time

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.tests.unit.fakes import heads
from vepyc.llama import llama_cpp

from ..fixtures.containers import ONE_LAYER_MORE
from .test_llama_verify import verify_instances

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080, "context": 2048, "restart_limit": 100}
UNIT = "/etc/systemd/system/llama-chat.service"
MODELS = "/var/lib/models"
#: More tokens than a physical batch of llama-server has by default.
LONG_TEXT = "The river runs past seven old mills. " * 100
#: Arguments with which a server reads the model, says that it is healthy, and aborts at its first request.
NO_CONTEXT = ["--override-kv", "llama.context_length=int:0"]
#: Writes a copy of the test model whose last norm is zero, so that all tokens are equally probable.
FLATTEN = """
import struct, sys
content = bytearray(open(sys.argv[1], "rb").read())
at = content.index(b"output_norm.weight") + len(b"output_norm.weight")
count, dummy, offset = struct.unpack("<QIQ", content[at + 4 : at + 24])
start = len(content) - int(sys.argv[2]) + offset
content[start : start + 4 * count] = bytes(4 * count)
open("/var/lib/models/flat.gguf", "wb").write(content)
"""


@pytest.fixture(scope="module", autouse=True)
def models(service_host):
    service_host.write_file(f"{MODELS}/ranks.gguf", heads.ranks())
    weights = gguf_model.read_model(str(llama_cpp.ensure_model())).weight_bytes
    service_host.run(f"python3 - {service_host.model} {weights}", text=FLATTEN)
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
        f"sed -i -e 's/ --pooling mean//' -e '/llama answer/d' {UNIT}; systemctl daemon-reload; "
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
    ("changed", "words"),
    [
        ({"extra_arguments": NO_CONTEXT}, "The server ended or hung up at its first request."),
        ({"model": f"{MODELS}/flat.gguf"}, "all tokens of its vocabulary are equally probable"),
    ],
    ids=["aborts", "flat"],
)
@pytest.mark.parametrize("order", ["stop_first", "start_first"])
def test_a_server_that_does_not_compute_replaces_none(service_host, changed, words, order):
    """With /health alone, both would count as serving."""
    service_host.serve(CHAT)
    before = service_host.complete_text(8080, "The river")["content"]
    played = service_host.run_role(
        epyc_llama_instances=service_host.with_test_model({**CHAT, "update_order": order, **changed})
    )
    assert played.returncode == 2, played.output
    reason = read_failure(played).partition("The journal ends")[0]
    assert "does not serve: 3 tokens were requested of it" in reason and words in reason, reason
    assert service_host.complete_text(8080, "The river")["content"] == before


def read_failure(played):
    (failed,) = [result for result in played.results if result["status"] == "failed"]
    return str(failed.get("results") or failed["msg"])


def test_the_reason_of_a_failed_start_comes_first(service_host):
    service_host.serve(CHAT)
    played = service_host.run_role(
        epyc_llama_instances=service_host.with_test_model(
            {**CHAT, "update_order": "stop_first", "extra_arguments": ONE_LAYER_MORE}
        )
    )
    assert played.returncode == 2, played.output
    said = read_failure(played)
    assert said.startswith("llama-chat.service says: llama_model_load: error loading model: "), said
    assert "blk.30." in said.partition("failed with exit code")[0] and "fit params" not in said, said
    assert service_host.fetch_status(8080, "/health") == 200


def test_a_file_that_was_overwritten_in_place_is_told_from_one_that_was_replaced(service_host):
    own = f"{MODELS}/own.gguf"
    service_host.run(f"cp {service_host.model} {own}")
    service_host.serve({**CHAT, "model": own})
    service_host.run(f"cp --preserve=timestamps {own} {own}.new && mv {own}.new {own}")
    sentence = verify_instances(service_host)[0]["service/chat"]["sentence"]
    assert sentence.startswith(f"{own} was replaced, and llama-chat.service still runs with the old file"), sentence
    service_host.run("systemctl restart llama-chat")
    assert verify_instances(service_host)[0]["service/chat"]["verdict"] == "ok"
    service_host.run(f"printf x | dd of={own} conv=notrunc bs=1 seek=90000000 status=none")
    sentence = verify_instances(service_host)[0]["service/chat"]["sentence"]
    assert sentence.startswith(f"{own} was overwritten in place while llama-chat.service maps it"), sentence
