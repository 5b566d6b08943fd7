# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models by short names: what the catalogue has, what epyc_llama_models and instances make of it, and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import model_files, with_models
from ansible_collections.sovereign.epyc.plugins.module_utils._models import known_architectures
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.gguf_parts import list_gguf_parts
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue

FILES = model_files.FilterModule().filters()["model_files"]
WITH = with_models.FilterModule().filters()["with_models"]
ROOT = Path(__file__).parents[4]
HUB = "https://hub.example.com"
SUM, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MINE = {
    "repository": "org/House-GGUF",
    "revision": COMMIT,
    "file": "q4/House-00001-of-00002.gguf",
    "parts": [{"sha256": "a" * 64, "size": 9}, {"sha256": "b" * 64, "size": 8}],
    "vocabulary": "llama-3",
}
MIXTURES = ("deepseek-v3.2-q4", "deepseek-v4-flash-q4", "glm-4.5-air-q4", "glm-4.7-flash-q4", "glm-5.2-q4")
MIXTURES += ("gpt-oss-20b", "gpt-oss-120b", "kimi-k2.6-q4", "minimax-m2.7-q3", "minimax-m3-q4", "qwen3-coder-next-q4")
TWO = {**MINE, "file": "House.gguf", "parts": MINE["parts"][:1]}


def files(*asked: dict[str, Any], own: dict[str, Any] | None = None, endpoint: str = HUB) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = FILES(list(asked), own or {}, endpoint, "/srv/models/")
    return made


def placed(instance: dict[str, Any], *asked: dict[str, Any], own: dict[str, Any] | None = None) -> dict[str, Any]:
    (made,) = WITH([{"name": "chat", **instance}], files(*asked, own=own), own or {})
    return dict(made)


# The file of the collection


def test_every_entry_says_where_its_checksums_come_from() -> None:
    """And is as entries of users have to be; a draft fits, and is small enough to gain something."""
    entries = _model_catalogue.merge_user_entries_into_catalogue({})
    assert len(entries) >= 12 and entries == _model_catalogue.merge_user_entries_into_catalogue(entries)
    sums = [part["sha256"] for entry in entries.values() for part in entry["parts"] if part]
    assert len(set(sums)) == len(sums)
    for name, entry in entries.items():
        assert re.fullmatch("[a-z0-9.-]+", name) and _model_catalogue.COMMIT.match(entry.get("revision", "0" * 40))
        assert entry["licence"] and entry["source"] and all(part["size"] > 1 << 20 for part in entry["parts"] if part)
        assert all(entry["parts"]) or not entry["fetched"]
        for draft in entry.get("drafts", ()):
            assert entries[draft]["vocabulary"] == entry["vocabulary"]
            assert 4 * entries[draft]["shape"]["file_bytes"] < entry["shape"]["file_bytes"]


def test_every_entry_has_numbers_that_agree() -> None:
    """A file has 3 to 9.5 bits for each parameter, and only a mixture of experts has active parameters."""
    for name, entry in _model_catalogue.merge_user_entries_into_catalogue({}).items():
        shape = entry["shape"]
        assert shape["source"] and known_architectures.is_known_name(shape["architecture"]), name
        assert 3 < 8 * shape["file_bytes"] / shape["parameters"] < 9.5, name
        assert 0 < shape["active_parameters"] <= shape["parameters"] and 8 <= shape["layers"] <= 100, name
        assert (shape["active_parameters"] < shape["parameters"]) == ("-a" in name or name in MIXTURES), name
        assert 8192 <= shape["trained_context"] <= 1 << 20 and shape["kv_bytes_per_token"] < 1 << 19, name


def test_the_tables_of_the_documents_are_the_file() -> None:
    page = (ROOT / "docs/model-catalogue.md").read_text(encoding="utf-8")
    entries = _model_catalogue.merge_user_entries_into_catalogue({})
    rows = re.findall(
        r"^\| ([a-z0-9.-]+) \| ([^|]*B[^|]*) \| (\S+) \| (.*) \| (\d+) \| (.*) \| (.*) \|$", page, re.MULTILINE
    )
    assert rows == [table_row(name, entry) for name, entry in entries.items()]
    families: dict[str, str] = {}
    for name, entry in entries.items():
        if entry.get("sampling"):
            text = ", ".join(f"{key} {value:g}" for key, value in entry["sampling"].items())
            families.setdefault(text, "")
            families[text] += f", {name}" if families[text] else name
    for text, names in families.items():
        assert f"| {names} | {text} |" in page
    own = [name for name, entry in entries.items() if entry["fetched"]]
    assert own == ["smollm2-135m-q4"] and f"**{own[0]} alone**" in page


def table_row(name: str, entry: dict[str, Any]) -> tuple[str, ...]:
    shape = entry["shape"]
    billions = shape["parameters"] / 1e9
    parameters = f"{billions:,.0f}B" if billions > 100 else f"{billions:.3g}B"
    if shape["active_parameters"] < shape["parameters"]:
        parameters += f", {shape['active_parameters'] / 1e9:.2g}B active"
    speculation = entry.get("drafts") or (["mtp in the file"] if entry.get("mtp") else ["none"])
    return (
        name,
        parameters,
        shape["quantization"],
        f"{shape['file_bytes'] / (1 << 30):.1f} GiB",
        str(len(entry["parts"])),
        entry["licence"],
        ", ".join(speculation),
    )


# What is asked for


def test_a_name_is_a_checked_file_of_the_hub() -> None:
    first, second = files({"name": "gpt-oss-20b"}, {"name": "qwen2.5-7b-q4"}, endpoint=f"{HUB}/")
    entry = _model_catalogue.merge_user_entries_into_catalogue({})["gpt-oss-20b"]
    assert first["path"] == "/srv/models/gpt-oss-20b-mxfp4.gguf" and first["hub"] is True
    assert first["url"] == f"{HUB}/ggml-org/gpt-oss-20b-GGUF/resolve/{entry['revision']}/gpt-oss-20b-mxfp4.gguf"
    assert first["checksum"] == [f"sha256:{entry['parts'][0]['sha256']}"] and first["size"] == [12109566560]
    assert len(second["checksum"]) == len(second["size"]) == len(list_gguf_parts(second["path"])) == 2


def test_entries_of_the_user_win() -> None:
    (one,) = files({"name": "gpt-oss-20b"}, own={"gpt-oss-20b": MINE})
    assert one["url"] == f"{HUB}/org/House-GGUF/resolve/{COMMIT}/q4/House-00001-of-00002.gguf"
    assert (one["checksum"], one["size"]) == ([SUM, OTHER], [9, 8])
    of_a_url = {"url": "https://x.example.com/a.gguf?k=1", "parts": [{"sha256": "a" * 64}]}
    (one,) = files({"name": "own", "path": "/m/a.gguf"}, own={"own": of_a_url})
    assert (one["url"], one["path"], one["size"], one["hub"]) == (of_a_url["url"], "/m/a.gguf", None, False)


def test_what_has_no_name_in_the_catalogue() -> None:
    hub, url, there = files(
        {"repository": "org/Small", "file": "q8/small%q8.gguf", "revision": "a/b", "checksum": SUM},
        {"name": "large", "url": "https://x.example.com/large-00001-of-00002.gguf", "checksum": [SUM, OTHER]},
        {"path": "/srv/there.gguf"},
    )
    assert (hub["url"], hub["path"]) == (
        f"{HUB}/org/Small/resolve/a%2Fb/q8/small%25q8.gguf",
        "/srv/models/small%q8.gguf",
    )
    assert (hub["checksum"], hub["hub"], url["hub"]) == ([SUM], True, False)
    assert (url["path"], url["checksum"]) == ("/srv/models/large-00001-of-00002.gguf", [SUM, OTHER])
    assert (there["path"], there["url"], there["checksum"]) == ("/srv/there.gguf", None, [])
    (trusted,) = files({"repository": "org/Small", "file": "s.gguf", "revision": COMMIT, "trust_hub": True})
    assert trusted["checksum"] == ["server"]


@pytest.mark.parametrize(
    ("asked", "own", "words"),
    [
        ({"name": "qwen3-8b"}, {}, "epyc_llama_models: there is no model qwen3-8b; near are qwen3-8b-q4, "),
        (
            {"name": "xxxxxxx"},
            {},
            "there is no model xxxxxxx; docs/model-catalogue.md lists them. Give url or repository",
        ),
        ({"name": "houze"}, {"house": MINE}, "near are house. Give url"),
        ({}, {}, "epyc_llama_models: {}: give a name of the catalogue, a repository with its file, a url, or a path."),
        (
            {"name": "gpt-oss-20b", "checksum": SUM},
            {},
            "gpt-oss-20b: the catalogue has its checksums; leave checksum out",
        ),
        ({"repository": "org/x", "file": "x.gguf"}, {}, "x.gguf: give either its checksum or trust_hub"),
        ({"repository": "org/x", "file": "x.gguf", "checksum": SUM, "trust_hub": True}, {}, "either its checksum or"),
        (
            {"repository": "org/x", "file": "x.gguf", "revision": "main", "trust_hub": True},
            {},
            "needs as revision a commit",
        ),
        ({"repository": "x", "file": "x.gguf", "checksum": SUM}, {}, "'x' is no repository; give ORG/NAME."),
        ({"repository": "org/x", "file": "../x.gguf", "checksum": SUM}, {}, "'../x.gguf' is no file of the repository"),
        ({"repository": "org/x", "file": "README.md", "checksum": SUM}, {}, "'README.md' is no file of the repository"),
        (
            {"path": "/m/a.gguf", "checksum": "md5:1"},
            {},
            "epyc_llama_models: /m/a.gguf: checksum: 'md5:1' is no checksum",
        ),
        (
            {"name": "own", "path": "/m/a.gguf"},
            {"own": MINE},
            "/m/a.gguf is not the first of 2 files; keep their names.",
        ),
        (
            {},
            {"own": {**MINE, "sha265": 1}},
            "epyc_llama_catalogue: own has sha265, which no entry has: drafts, fetched, file, ",
        ),
        ({}, {"own": {**MINE, "parts": []}}, "epyc_llama_catalogue: own has 0 parts, but 2 files"),
        (
            {},
            {"own": {**TWO, "parts": [{"sha256": "a"}]}},
            "epyc_llama_catalogue: own: checksum: 'sha256:a' is no checksum",
        ),
        ({}, {"own": {**TWO, "parts": [{"sha256": "a" * 64, "size": "big"}]}}, "own: size: 'big' is no whole number"),
        (
            {},
            {"own": {**TWO, "parts": [{"sha256": "a" * 64, "md5": 1}]}},
            "own: a part has sha256 and size, and nothing",
        ),
        ({}, {"own": {**MINE, "url": "https://x.example.com/a.gguf"}}, "needs either repository and file, or url."),
        ({}, {"own": "x"}, "epyc_llama_catalogue: own is no dictionary"),
    ],
)
def test_what_cannot_be_had(asked: dict[str, Any], own: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError) as refusal:
        files(asked, own=own)
    assert words in str(refusal.value)


def test_what_cannot_be_had_together() -> None:
    here = {"path": "/m/a.gguf", "checksum": SUM}
    assert len(files(here, here)) == 2
    for asked, words in (
        ([{"name": "gpt-oss-20b"}] * 2, "epyc_llama_models names gpt-oss-20b twice: leave one out."),
        (
            [here, {**here, "checksum": OTHER}],
            "epyc_llama_models has two models at /m/a.gguf: give one of them another path.",
        ),
    ):
        with pytest.raises(AnsibleFilterError, match=re.escape(words)):
            files(*asked)
    with pytest.raises(AnsibleFilterError, match="epyc_llama_hub_endpoint: 'hub' is no address"):
        files({"name": "gpt-oss-20b"}, endpoint="hub")


# What instances make of it


def test_an_instance_gets_the_paths_of_names() -> None:
    asked = [{"name": "qwen3-8b-q4"}, {"name": "qwen3-0.6b-q8"}]
    made = placed({"model": "qwen3-8b-q4", "draft_model": "qwen3-0.6b-q8", "port": 1}, *asked)
    assert made == {
        "name": "chat",
        "model": "/srv/models/Qwen3-8B-Q4_K_M.gguf",
        "draft_model": "/srv/models/Qwen3-0.6B-Q8_0.gguf",
        "port": 1,
        "sampling": {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0},
        "catalogue_model": {"name": "qwen3-8b-q4", "fetched": False, "recommended_sampling": True},
    }
    paths = {"model": "/m/a.gguf", "draft_model": "/m/b.gguf"}
    assert placed(paths) == {"name": "chat", **paths}
    assert placed({"model": "mine"}, {"name": "mine", "path": "/m/a.gguf"})["model"] == "/m/a.gguf"


def test_the_sampling_of_an_instance_replaces_that_of_the_catalogue() -> None:
    for own in ({}, {"temperature": 0}):
        made = placed({"model": "qwen3-8b-q4", "sampling": own}, {"name": "qwen3-8b-q4"})
        assert made["sampling"] == own and made["catalogue_model"]["recommended_sampling"] is False
    made = placed({"model": "qwen3-8b-q4", "task": "embedding"}, {"name": "qwen3-8b-q4"})
    assert "sampling" not in made and made["catalogue_model"]["recommended_sampling"] is False
    made = placed({"model": "smollm2-135m-q4"}, {"name": "smollm2-135m-q4"})
    assert made["catalogue_model"] == {"name": "smollm2-135m-q4", "fetched": True, "recommended_sampling": False}
    assert "catalogue_model" not in placed({"model": "mine"}, {"name": "mine", "path": "/m/a.gguf"})


def test_an_entry_without_checksums_needs_trust() -> None:
    entry = _model_catalogue.merge_user_entries_into_catalogue({})["kimi-k2.6-q4"]
    (model,) = files({"name": "kimi-k2.6-q4", "trust_hub": True})
    assert model["checksum"] == ["server"] and entry["revision"] in model["url"] and model["size"] is None
    with pytest.raises(AnsibleFilterError, match="no checksum of this model, because it was never fetched by us"):
        files({"name": "kimi-k2.6-q4"})
    with pytest.raises(
        AnsibleFilterError, match="Give trust_hub: true, and as revision a commit of the repository, and"
    ):
        files({"name": "minimax-m3-q4"})
    with pytest.raises(AnsibleFilterError, match="minimax-m3-q4: trust_hub needs as revision a commit"):
        files({"name": "minimax-m3-q4", "trust_hub": True})
    (model,) = files({"name": "minimax-m3-q4", "trust_hub": True, "revision": COMMIT})
    assert f"/resolve/{COMMIT}/UD-Q4_K_M/MiniMax-M3-UD-Q4_K_M-00001-of-00007.gguf" in model["url"]
    (model,) = files({"name": "own"}, own={"own": {"url": "https://x.example.com/a.gguf"}})
    assert model["checksum"] == []


SHAPE = {"architecture": "llama", "quantization": "Q4_K_M", "parameters": 9, "layers": 2, "kv_bytes_per_token": 8}
SHAPE["trained_context"] = 4096


def test_the_facts_of_an_entry_of_the_user() -> None:
    facts = {"shape": SHAPE, "sampling": {"top_k": "20"}, "mtp": "own", "fetched": True}
    facts["quality"] = {"name": "Our test", "score": "71.5", "source": "a page"}
    entry = _model_catalogue.merge_user_entries_into_catalogue({"house": {**MINE, **facts}})["house"]
    assert entry["shape"] == {**SHAPE, "active_parameters": 9, "file_bytes": 17}
    assert entry["sampling"] == {"top_k": 20} and entry["quality"]["score"] == 71.5
    assert entry["fetched"] is True


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"fetched": "yes"}, "own: fetched is 'yes'; say true or false"),
        ({"shape": {**SHAPE, "layers": 0}}, "own: shape: layers is '0'; say a whole number above 0"),
        ({"shape": {**SHAPE, "heads": 1}}, "own: shape has heads, which none has: active_parameters, "),
        ({"shape": {**SHAPE, "active_parameters": 10}}, "active_parameters is 10, more than all 9 parameters"),
        ({"shape": {**SHAPE, "file_bytes": 18}}, "file_bytes is 18, but the parts have 17 bytes; leave file_bytes out"),
        ({"shape": SHAPE, "parts": None}, "own: shape needs file_bytes, because parts do not state the size"),
        ({"sampling": {"temp": 1}}, "own: sampling has no 'temp'; it takes temperature"),
        ({"mtp": "yes"}, "own: mtp is 'yes'; give the file of the repository with the MTP layers"),
        ({"quality": {"name": "x", "score": "good", "source": "y"}}, "own: quality: score is 'good'; say a number"),
        ({"quality": {"name": "x", "score": 1, "by": "y"}}, "own: quality has by, which none has: name, score, source"),
        ({"parts": [{"sha256": "a" * 64}, {"size": 1}]}, "some parts have a sha256 and some have none"),
    ],
)
def test_facts_that_cannot_be(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError) as refusal:
        files({"name": "own"}, own={"own": {**MINE, **facts}})
    assert words in str(refusal.value)


def test_a_template_beside_the_file_is_an_argument() -> None:
    own = {"own": {**TWO, "template": "chatml"}}
    assert placed({"model": "own"}, {"name": "own"}, own=own)["extra_arguments"] == ["--chat-template", "chatml"]
    given = ["--chat-template-file", "/t"]
    asked = {"model": "own", "extra_arguments": given}
    assert placed(asked, {"name": "own"}, own=own)["extra_arguments"] == given
    assert "extra_arguments" not in placed({"model": "own"}, {"name": "own"}, own={"own": {**TWO, "template": "own"}})


def test_several_models_by_their_names() -> None:
    own = {"own": {**TWO, "template": "own"}, "odd": {**TWO, "file": "Odd.gguf", "template": "chatml"}}
    models = {"a": "own", "b": "/m/b.gguf"}
    assert placed({"models": models}, {"name": "own"}, own=own)["models"] == {
        "a": "/srv/models/House.gguf",
        "b": "/m/b.gguf",
    }
    with pytest.raises(AnsibleFilterError, match="models: odd needs the chat template chatml, and the template"):
        placed({"models": {"a": "odd"}}, {"name": "odd"}, own=own)
    with pytest.raises(AnsibleFilterError, match="Instance chat: models: there is no model gpt-oss; near are"):
        placed({"models": {"a": "gpt-oss"}}, own=own)


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (
            {"model": "gpt-oss-120b"},
            "model: gpt-oss-120b is not in epyc_llama_models, so it is not fetched: add {name: gpt-",
        ),
        (
            {"model": "gpt-oss"},
            "Instance chat: model: there is no model gpt-oss; near are gpt-oss-20b, gpt-oss-120b. A",
        ),
        ({"model": "/m/a.gguf", "draft_model": "qwen"}, "Instance chat: draft_model: there is no model qwen; "),
        (
            {"model": "qwen2.5-7b-q4", "draft_model": "qwen3-0.6b-q8"},
            "Instance chat: qwen3-0.6b-q8 cannot draft for qwen2.5-7b-q4, because it has the vocabulary of qwen3 and "
            "the model that of qwen2.5: take qwen2.5-0.5b-q4 or qwen2.5-1.5b-q4.",
        ),
        ({"model": "gpt-oss-20b", "draft_model": "qwen3-0.6b-q8"}, "take a draft of the same family."),
    ],
)
def test_an_instance_that_cannot_be(instance: dict[str, Any], words: str) -> None:
    asked = [{"name": name} for name in ("qwen2.5-7b-q4", "qwen3-0.6b-q8", "gpt-oss-20b")]
    with pytest.raises(AnsibleFilterError) as refusal:
        placed(instance, *asked)
    assert words in str(refusal.value)


def test_a_draft_of_no_known_vocabulary_is_judged_on_the_host() -> None:
    asked = [{"name": "gpt-oss-20b"}, {"name": "mine", "path": "/m/a.gguf"}]
    assert placed({"model": "gpt-oss-20b", "draft_model": "mine"}, *asked)["draft_model"] == "/m/a.gguf"
