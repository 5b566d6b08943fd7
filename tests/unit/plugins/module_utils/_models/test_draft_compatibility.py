# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Heads that draft, against the model that they were made for and against others; and what a guess costs.

tests/service/test_llama_speculation.py has a real server guess with the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import draft_compatibility, model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.draft_compatibility import work_per_drafted_token
from ansible_collections.sovereign.epyc.plugins.module_utils._models.token_cost import TokenWork
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import planner
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, heads
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine

#: One matrix of a layer, in bytes.
MATRIX = 4 * heads.WIDTH**2
FILES = {
    "target": heads.model(),
    "eagle3": heads.eagle3(),
    "dflash": heads.dflash(),
    "dflash-draft": heads.dflash_draft(),
    "mtp": heads.with_mtp(),
    "short": heads.model(1),
    "wide": heads.eagle3(width=512),
    "late": heads.dflash((0, 2)),
    "silent": heads.eagle3(reads=()),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, model.Model]:
    folder = tmp_path_factory.mktemp("heads")
    for name, content in FILES.items():
        (folder / f"{name}.gguf").write_bytes(content)
    return {name: model.read_model(str(folder / f"{name}.gguf")) for name in FILES}


@pytest.mark.parametrize(
    ("kind", "of", "name"),
    [("eagle3", "target", "eagle3"), ("dflash", "target", "dflash"), ("mtp", "mtp", None), ("mtp", "mtp", "mtp")],
)
def test_a_head_of_its_own_model(files: dict[str, model.Model], kind: str, of: str, name: str | None) -> None:
    assert draft_compatibility.draft_head_refusal_reasons(kind, files[of], files[name] if name else None) == []


def test_each_engine_has_its_form_of_dflash(files: dict[str, model.Model]) -> None:
    assert (
        draft_compatibility.draft_head_refusal_reasons("dflash", files["target"], files["dflash-draft"], ik=True) == []
    )
    for form, ik, other in (("dflash", True, "dflash-draft, which ik_"), ("dflash-draft", False, "dflash, which ")):
        (said,) = draft_compatibility.draft_head_refusal_reasons("dflash", files["target"], files[form], ik)
        assert said.endswith(f"architecture is {form}. Name a file of the architecture {other}llama.cpp reads.")


@pytest.mark.parametrize(
    ("kind", "of", "name", "why"),
    [
        ("eagle3", "target", None, "speculation eagle3 needs the file of a head. Name it with draft_model."),
        (
            "eagle3",
            "target",
            "dflash",
            "its architecture is dflash. Name a file of the architecture eagle3, which llama.cpp reads.",
        ),
        (
            "dflash",
            "target",
            "target",
            "its architecture is llama. Name a file of the architecture dflash, which llama.cpp reads.",
        ),
        ("eagle3", "target", "wide", "it was made for a model of the width 512, and this one has 256."),
        ("eagle3", "short", "eagle3", "it reads the layers 0, 1, 2, and the model has 1."),
        ("dflash", "target", "late", "it reads the layers 0, 2, and the model has 2."),
        ("eagle3", "target", "silent", "it reads the layers none, and the model has 2."),
        ("mtp", "target", None, "has no layers that guess the next tokens (llama.nextn_predict_layers)"),
        ("mtp", "target", "mtp", "general.architecture is mimo2 there, and llama in the model."),
    ],
)
def test_another_one(files: dict[str, model.Model], kind: str, of: str, name: str | None, why: str) -> None:
    (said,) = draft_compatibility.draft_head_refusal_reasons(kind, files[of], files[name] if name else None)
    assert why in said and said.endswith(".")


def test_what_a_guess_reads(files: dict[str, model.Model]) -> None:
    """A head without an output reads that of the model; layers that guess are no part of what a token of it reads."""
    output = 4 * heads.WIDTH * len(heads.zero_model.TOKENS)
    assert work_per_drafted_token(files["target"], files["eagle3"]).bytes_read_by_batch(1) == pytest.approx(
        13 * MATRIX + output, rel=0.01
    )
    assert work_per_drafted_token(files["target"], files["dflash"]).bytes_read_by_batch(1) == pytest.approx(
        8 * MATRIX + output, rel=0.01
    )
    assert work_per_drafted_token(files["mtp"], None).bytes_read_by_batch(1) == pytest.approx(
        9 * MATRIX + output, rel=0.01
    )
    assert work_per_drafted_token(files["mtp"], files["mtp"]).bytes_read_by_batch(1) == work_per_drafted_token(
        files["mtp"], None
    ).bytes_read_by_batch(1)
    assert TokenWork.of_model(files["mtp"]).bytes_read_by_batch(1) == pytest.approx(7 * MATRIX + output, rel=0.01)


def planned(files: dict[str, model.Model], of: str, name: str | None, **raw: Any) -> InstancePlan:
    asked = {"name": "chat", "binary": "/opt/llama-server", "model": files[of].path, "port": 8080, **raw}
    options = Options.parse({**asked, "draft_model": files[name].path} if name else asked)
    free = FreeMemory(dict.fromkeys(range(4), 200 * GB))
    return planner.plan_instance(options, machine("9754"), NEW, files[of], files[name] if name else None, free)


def test_what_a_server_is_asked_for(files: dict[str, model.Model]) -> None:
    wants = planned(files, "target", "eagle3", speculation=["ngram", "eagle3"], draft_max=3).parameters
    assert (wants["speculation"], wants["draft_model"]) == (["ngram-simple", "eagle3"], files["eagle3"].path)
    plain, ahead = (
        planned(files, "mtp", None, **raw) for raw in ({"speculation": "none"}, {"speculation": "mtp", "draft_max": 2})
    )
    assert (
        ahead.parameters["speculation"] == ["mtp"]
        and "draft_model" not in ahead.parameters
        and ahead.parameters["draft_max"] == 2
    )
    assert ahead.need.kv_cache == 2 * plain.need.kv_cache, "of the layer that guesses, beside the one that says"


@pytest.mark.parametrize(
    ("of", "name", "raw", "why"),
    [
        ("target", None, {"speculation": "eagle3"}, "speculation is eagle3, which needs a draft_model"),
        ("target", "eagle3", {"speculation": ["draft", "eagle3"]}, "a server drafts with one model."),
        ("target", "dflash", {"speculation": "eagle3"}, "is no eagle3 head of"),
        ("target", "eagle3", {"speculation": "eagle3", "draft_placement": "first_ccd"}, "is for a draft model: a"),
    ],
)
def test_what_cannot_be_had(
    files: dict[str, model.Model], of: str, name: str | None, raw: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        planned(files, of, name, **raw)
    assert why in str(caught.value)


def test_a_header_that_says_something_else(tmp_path: Path, files: dict[str, model.Model]) -> None:
    """Layers that are texts, or none at all."""
    for more in ([ggufs.entry("eagle3.target_layers", "A8", [b"one"])], []):
        path = tmp_path / "head.gguf"
        path.write_bytes(ggufs.gguf(ggufs.model(None, "eagle3", more, target_hidden_size=heads.WIDTH)))
        (said,) = draft_compatibility.draft_head_refusal_reasons("eagle3", files["target"], model.read_model(str(path)))
        assert "it reads the layers none" in said
