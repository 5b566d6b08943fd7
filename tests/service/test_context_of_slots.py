# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens a request may have at the real server, whose slots share a KV cache or have their own parts of it.

What such a cache takes is in test_llama_refusals.py.
"""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080, "slots": 4, "speculation": "none", "restart_limit": 1000}


def make_prompt(number, sentences):
    """Return a text of about 12 tokens for each sentence."""
    return " ".join(f"The box of number {number} is kept in room {turn * 7}." for turn in range(sentences))


def ask(service_host, prompt):
    """Have a prompt continued; return the status, and the server's counts of tokens that it read or still had."""
    body = {"prompt": prompt, "n_predict": 4, "temperature": 0, "cache_prompt": True}
    status, text = service_host.send_request(8080, "/completion", body)
    return status, json.loads(text).get("timings")


def tokens_of_slots(service_host):
    return [slot["n_ctx"] for slot in service_host.fetch_json(8080, "/slots")]


def test_a_request_may_have_the_whole_context(service_host):
    played = service_host.serve({**CHAT, "context": 2048})
    (plan,) = played["Run the instances"]["services"].values()
    assert [choice["undo"] for choice in plan["default_choices"] if choice["option"] == "kv_unified"] == [
        "kv_unified: false"
    ]
    assert tokens_of_slots(service_host) == [2048] * 4
    assert ask(service_host, make_prompt(1, 80))[0] == 200, "more than a quarter of the context"
    assert service_host.serve({**CHAT, "context": 2048}).changed_results == {}


def test_a_divided_context_refuses_it(service_host):
    service_host.serve({**CHAT, "context": 2048, "kv_unified": False})
    assert tokens_of_slots(service_host) == [512] * 4
    assert ask(service_host, make_prompt(1, 80))[0] == 400
    service_host.serve({**CHAT, "context_per_slot": 1024})
    assert tokens_of_slots(service_host) == [1024] * 4
    assert ask(service_host, make_prompt(1, 50))[0] == 200


def test_a_shared_cache_with_a_limit_for_each_slot(service_host):
    service_host.serve({**CHAT, "context_per_slot": 1024, "kv_unified": True})
    assert tokens_of_slots(service_host) == [1024] * 4
    assert "--ctx-size 4096 --parallel 4 --kv-unified --kv-unified-per-slot 1024" in service_host.run(
        "systemctl show --property=ExecStart llama-chat.service"
    )
    assert ask(service_host, make_prompt(1, 50))[0] == 200
    assert ask(service_host, make_prompt(1, 120))[0] == 400


@pytest.mark.parametrize("cache", ["1MiB", "256MiB"])
def test_a_conversation_waits_for_its_next_turn(service_host, cache):
    """In its slot, where the prompt cache cannot hold it, because an idle slot would be cleared; else in the cache."""
    played = service_host.serve({**CHAT, "context": 4096, "prompt_cache": cache})
    (plan,) = played["Run the instances"]["services"].values()
    too_small = [remark for remark in plan["remarks"] if remark.startswith("prompt_cache is 1 MiB")]
    assert len(too_small) == (cache == "1MiB")
    for number in (1, 2):
        assert ask(service_host, make_prompt(number, 70))[0] == 200
    status, timings = ask(service_host, make_prompt(1, 70) + " And")
    assert status == 200 and timings["cache_n"] > 700, timings
