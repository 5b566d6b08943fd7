# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How large a saved prompt is, which requests gain from one, and which instances cannot have any."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import Models, planned

LEAST = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080, "slot_files": "1GiB"}


def test_a_saved_prompt_is_as_large_as_its_part_of_the_cache(host: Host, models: Models) -> None:
    plain = planned(host, models, speculation="none", context=8192, slots=2)
    assert plain.slot_bytes is None and "slot_files" not in plain.parameters
    found = planned(host, models, speculation="none", context_per_slot=4096, slots=2, slot_files="900GiB")
    assert found.parameters["slot_files"] == "/var/lib/llama-chat"
    size = found.slot_bytes
    assert size and size.tokens == 4096 and size.fixed == 0
    assert size.each == 16 + found.need.kv_cache // 8192
    assert not [remark for remark in found.remarks if remark.startswith("slot_files")]


def test_remarks(host: Host, models: Models) -> None:
    found = planned(host, models, speculation="none", context_per_slot=4096, slots=2, slot_files="1MiB")
    remarks = [remark for remark in found.remarks if remark.startswith("slot_files")]
    assert found.slot_bytes
    tokens = (1 << 20) // found.slot_bytes.each
    assert remarks[0].startswith(f"slot_files 1MiB holds {tokens} tokens, and each of 2 slots has up to 4096. Longer")
    assert len(remarks) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"slot_files": "0GiB"}, "slot_files is 0; leave it out where no prompt shall be saved."),
        ({"slot_files": "much"}, "slot_files: 'much' is no amount of memory; say it as 40GiB or 512MiB."),
        ({"model": None, "models": {"a": "/a.gguf"}}, "and models runs a router, whose servers save no slots."),
        ({"rpc_workers": ["10.0.0.1:50052"], "speculation": "none"}, "and rpc_workers keep parts of the slots on"),
        ({"task": "rerank", "speculation": "none"}, "and task rerank keeps no prompts. Leave one of them out."),
        ({"speculation": "draft", "draft_model": "/srv/d.gguf"}, "and the draft of speculation draft would lack what"),
        ({"speculation": "mtp"}, "and the draft of speculation mtp would lack what it has computed for these prompts."),
    ],
)
def test_what_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Options.parse({**LEAST, **more})
    assert words in str(caught.value)
