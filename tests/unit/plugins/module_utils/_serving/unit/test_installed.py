# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances on a host, and the plan that comes back from the unit that carries it."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import installed
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import (
    WORDS,
    main_unit,
    service,
)


def test_instances_that_are_installed(tmp_path: Path) -> None:
    """A unit that somebody else wrote is none, and one that drafts belongs to its instance."""
    assert installed.read_instance_unit_texts(str(tmp_path)) == {}
    text = f"{INSTANCE_HEAD}\n[Unit]\n"
    folder = tmp_path / UNIT_FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    for name in ("chat", "chat-rpc", "code", "lost-rpc"):
        (folder / f"llama-{name}.service").write_text(text)
    (folder / "llama-mine.service").write_text("[Unit]\n")
    (folder / "llama-chat.service.d").mkdir()
    assert installed.read_instance_unit_texts(str(tmp_path)) == {"chat": text, "code": text, "lost": ""}


def test_where_instances_were_placed(tmp_path: Path) -> None:
    assert installed.list_instance_placements(str(tmp_path)) == []
    folder = tmp_path / UNIT_FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    one = service(rpc=True)
    one.expect = {"cpus": "0-3", "nodes": "0"}
    for path, text in unit_texts.render_llama_units(one, []).items():
        (tmp_path / path.lstrip("/")).write_text(text)
    (folder / "llama-code.service").write_text(f"{INSTANCE_HEAD}\n[Unit]\n")
    empty = dict.fromkeys(("cpus", "nodes", "draft_cpus", "url"), "")
    assert installed.list_instance_placements(str(tmp_path)) == [
        {"name": "chat", "cpus": "0-3", "nodes": "0", "draft_cpus": "4", "url": "http://127.0.0.1:8080"},
        {"name": "code", **empty},
    ]
    unit = folder / "llama-chat.service"
    unit.write_text(unit.read_text().replace('"expect": {', '"expect": [], "x": {'))
    assert installed.list_instance_placements(str(tmp_path))[0] == {"name": "chat", **empty}, (
        "somebody changed its plan"
    )


@given(
    name=st.sampled_from(["m.gguf", 'a "b".gguf', "100%.gguf", "%n $HOME.gguf", "\\", "'", "é", "\udcff"]), text=WORDS
)
def test_a_plan_comes_back_as_it_was(name: str, text: str) -> None:
    one = service(rpc=True, api_key_file="/etc/100%.keys", host="::")
    one.files = {f"/srv/{name}": [98362432, 1764000000123456789]}
    one.parameters["speculation"] = ["ngram-simple"]
    one.expect = {"cpus": "0-3", "interleaved": True, "group": text}
    files = unit_texts.render_llama_units(one, [], {"/opt/llama-server": [1, 2]}, 3)
    assert installed.parse_unit_plan(files["/etc/systemd/system/llama-chat.service"]) == {
        "name": "chat",
        "engine": "llama",
        "unit": "llama-chat.service",
        "url": "http://[::1]:8080",
        "key_file": "/etc/100%.keys",
        "task": "completion",
        "models": [],
        "speculation": ["ngram-simple"],
        "expect": one.expect,
        "rpc": {
            "unit": "llama-chat-rpc.service",
            "expect": {
                "cpus": "4",
                "busy_cpus": "4",
                "nodes": "1",
                "interleaved": False,
                "spread": "core",
            },
        },
        "files": one.files,
        "programs": {"/opt/llama-server": [1, 2]},
        "keys": 3,
        "mapped": one.mapped,
        "rate": None,
        "details": {},
    }
    assert installed.parse_unit_plan(files["/etc/systemd/system/llama-chat-rpc.service"]) is None


def test_a_plan_that_is_not_whole_is_none() -> None:
    text = main_unit()
    assert installed.parse_unit_plan(text) is not None
    for other in (
        text.rpartition("Digest=")[0][:-3],
        text.replace('"url"', '"uri"'),
        text.replace("Plan=", "Plan=[]"),
        text.replace("[X-Sovereign-Epyc]", "[X-Other]"),
        "[Service]\nExecStart=/bin/true\n",
        "",
    ):
        assert other != text and installed.parse_unit_plan(other) is None


def test_a_model_that_is_replaced_under_its_name_changes_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"

    def unit() -> str:
        one = service()
        again = InstancePlan(
            one.options, one.placement, one.need, one.parameters, None, [model.read_model(str(path))], [], {}, []
        )
        return unit_texts.render_llama_units(again, [])["/etc/systemd/system/llama-chat.service"]

    ggufs.written(path, 144)
    before = unit()
    assert unit() == before
    os.utime(path, (0, 0))
    touched = unit()
    ggufs.written(path, 288)
    os.utime(path, (0, 0))
    assert len({before, touched, unit()}) == 3


def test_what_was_replaced_since_it_was_loaded(tmp_path: Path) -> None:
    """A program or a model that is another one by now, or keys; and a file that is gone."""
    paths = {name: tmp_path / name for name in ("llama-server", "m.gguf", "keys")}
    for path in paths.values():
        path.write_text("x")
        os.utime(path, ns=(1, 5))
    known = {name: {str(path): [1, 5]} for name, path in paths.items()}
    plan = {"programs": known["llama-server"], "files": known["m.gguf"], "key_file": str(paths["keys"]), "keys": 5}
    assert installed.list_files_replaced_since_load(plan) == []
    assert installed.list_files_replaced_since_load({**plan, "key_file": None, "keys": None}) == []
    for path in paths.values():
        os.utime(path, ns=(1, 6))
        assert installed.list_files_replaced_since_load(plan) == [str(path)]
        os.utime(path, ns=(1, 5))
    paths["m.gguf"].write_text("longer")
    os.utime(paths["m.gguf"], ns=(1, 5))
    paths["llama-server"].unlink()
    assert installed.list_files_replaced_since_load(plan) == [str(paths["llama-server"]), str(paths["m.gguf"])]
