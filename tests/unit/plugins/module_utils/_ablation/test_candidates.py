# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A unit with other options: what differs goes into a drop-in, and what cannot be is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import candidates as module
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.candidates import Candidates, render_drop_in
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.measured_instance import find_llama_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import Instance
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instances import Purge
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

PATH = f"{UNIT_FOLDER}/llama-chat.service"
BEFORE = """\
# Written by us
[Unit]
Description=llama-server chat

[Service]
ExecStart=/opt/llama-server --threads 8
Environment=A=1
Environment=B=2
NUMAPolicy=interleave
NUMAMask=0-3
AllowedCPUs=0-7

[X-Sovereign-Epyc]
Plan={}
"""


def test_only_lines_of_the_service_that_differ_are_in_the_drop_in() -> None:
    after = BEFORE.replace("--threads 8", "--threads 4").replace("Environment=B=2\n", "Environment=C=3\n")
    after = after.replace("NUMAPolicy=interleave\nNUMAMask=0-3\n", "").replace("Plan={}", 'Plan={"a": 1}')
    text = render_drop_in(BEFORE, after)
    assert text is not None and text.splitlines()[1:] == [
        "[Service]",
        "ExecStart=",
        "ExecStart=/opt/llama-server --threads 4",
        "Environment=",
        "Environment=A=1",
        "Environment=C=3",
        "NUMAPolicy=default",
        "NUMAMask=",
    ]
    assert render_drop_in(BEFORE, BEFORE.replace("llama-server chat", "another")) is None


class Planned:
    """Stands for the planner: the unit of an instance has its threads in it, more than 8 are refused."""

    def __init__(self, here: Measured, patch: pytest.MonkeyPatch) -> None:
        self.here = here
        self.draft = ""
        self.given: dict[str, Any] = {}
        patch.setattr(module.instances, "build_knobs", self.knobs_of)
        patch.setattr(module.probe, "probe_capabilities", lambda binary, walls: None)
        patch.setattr(module, "trial_sandbox_lines", lambda options, files: [])
        patch.setattr(module.server_arguments, "build_arguments", lambda wants, server: wants)
        self.words = find_llama_instance(here.host(), "chat").arguments

    def knobs_of(
        self, engine: object, host: object, raw: list[dict[str, Any]], purge: Purge, root: str
    ) -> list[Instance]:
        assert not purge.single_host
        (given,) = raw
        self.given = given
        threads = given.get("threads", 8)
        if threads > 8:
            raise BadRequest(f"threads is {threads}, and there are 8 cores")
        own = textfile.read_text(textfile.path_in_tree(root, PATH)) or ""
        text = own if threads in (8, 7) else own.replace("[X-", f"[Service]\nExecStart={threads}\n\n[X-")
        words = self.words[1:] if threads in (8, 7) else [*self.words[1:], "--threads", str(threads)]

        class Service:
            options = type("Options", (), {"binary": given["binary"]})
            parameters = words

        one = Instance(
            "chat", {PATH: text, **({f"{UNIT_FOLDER}/llama-chat-rpc.service": str(threads)} if self.draft else {})}
        )
        one.service = Service  # type: ignore[assignment]
        return [one]

    def candidates(self, **options: Any) -> Candidates:
        host = self.here.host()
        return Candidates(host, {"name": "chat", "model": None, **options}, find_llama_instance(host, "chat"))


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planned]:
    with measured(tmp_path, monkeypatch) as here:
        yield Planned(here, monkeypatch)


def test_a_candidate_is_what_the_planner_makes_of_its_options(planned: Planned) -> None:
    one = planned.candidates().build_variant({"threads": 4}, "candidate 1")
    assert one.drop_in is not None and "ExecStart=4" in one.drop_in
    assert one.arguments == [*planned.words, "--threads", "4"]
    assert one.plan is not None and one.plan["name"] == "chat"


def test_without_a_binary_it_is_that_of_the_unit(planned: Planned) -> None:
    """The process may be the interpreter of a script, so it does not tell."""
    path = textfile.path_in_tree(str(planned.here.service.tree.fs.root), PATH)
    text = (textfile.read_text(path) or "").replace("[X-", '[Service]\nExecStart="/opt/a b%%c" --port 1\n\n[X-')
    textfile.write_file(path, text)
    planned.candidates()
    assert planned.given["binary"] == "/opt/a b%c"


def test_what_a_kind_of_speculation_has_goes_with_it(planned: Planned) -> None:
    """Else none of those without a draft could be tried for an instance that has one."""
    candidates = planned.candidates(draft_model="/d.gguf", draft_max=4, suffix_corpus="/c.json", ngram_max=9)
    for kinds, left in (
        ("none", set()),
        ("ngram", set()),
        ("suffix", {"suffix_corpus"}),
        ("ngram,draft", {"draft_model", "draft_max"}),
    ):
        candidates.build_variant({"threads": 4, "speculation": kinds}, "candidate 1")
        assert planned.given["speculation"] == kinds and planned.given["ngram_max"] == 9
        assert set(planned.given) & {"draft_model", "draft_max", "suffix_corpus"} == left, kinds


def test_what_the_planner_refuses_is_refused(planned: Planned) -> None:
    with pytest.raises(BadRequest, match="there are 8 cores"):
        planned.candidates().build_variant({"threads": 9}, "candidate 1")


def test_the_same_unit_is_not_tried_twice(planned: Planned) -> None:
    candidates = planned.candidates()
    candidates.build_variant({"threads": 4}, "candidate 1")
    with pytest.raises(BadRequest, match="the same as candidate 1"):
        candidates.build_variant({"threads": 4, "threads_batch": 8}, "candidate 2")
    with pytest.raises(BadRequest, match="the same as the default"):
        candidates.build_variant({"threads": 7}, "candidate 3")


def test_another_process_that_drafts_is_not_tried(planned: Planned) -> None:
    planned.draft = "a"
    with pytest.raises(BadRequest, match="process that drafts"):
        planned.candidates().build_variant({"threads": 4}, "candidate 1")


def test_an_instance_that_runs_otherwise_is_refused(planned: Planned) -> None:
    with pytest.raises(BadRequest, match=r"does not run as its options say.*Run site\.yml first"):
        planned.candidates(threads=4)
