# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller makes of the variables of the layers, and what it refuses of them without a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.sovereign.epyc.plugins.plugin_utils import _preflight
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.known_variables import ROLES
from ansible_collections.sovereign.epyc.plugins.plugin_utils._preflight import REFUSED_MODEL, format_refusals_message

CHAT = {"name": "chat", "model": "/m.gguf", "port": "8080", "lock": "yes"}
PINNED = f"sha256:{'a' * 64}"


def ask(*layers: str, **variables: Any) -> _preflight.Preflight:
    """Return the question of these layers, with the defaults of their roles and of the role that they depend on."""
    values: dict[str, Any] = {}
    for layer in ("plan", *layers):
        for file in ("defaults", "vars"):
            path = ROLES / f"epyc_{layer}" / file / "main.yml"
            found = yaml.safe_load(path.read_text()) if path.exists() else {}
            values.update({name: trust(value) for name, value in found.items()})
    values.update(variables)
    templar = Templar(loader=DataLoader(), variables=values)
    return _preflight.Preflight(layers, _preflight.Variables(values, templar.template))


def trust(value: Any) -> Any:
    if isinstance(value, str):
        return trust_as_template(value)
    return [trust(one) for one in value] if isinstance(value, list) else value


def test_instances_have_the_types_that_the_module_gives_them() -> None:
    question = ask("llama", epyc_llama_instances=[CHAT])
    assert question.refusals == []
    (one,) = question.options["instances"]
    assert (one["port"], one["lock"], one["speculation"]) == (8080, True, ["ngram"])
    assert question.options["binary"] == "/usr/bin/llama-server"
    assert (question.options["installs"], question.options["purge"]) == (False, True)


def test_a_host_without_instances_is_not_asked_for_them() -> None:
    assert ask("llama", "bios").layers == []


def test_an_unknown_key_is_refused_on_the_host() -> None:
    question = ask("llama", epyc_llama_instances=[{**CHAT, "modell": "/x"}, {**CHAT, "lock": "perhaps"}])
    assert question.refusals == []
    assert [one.get("modell") or one["lock"] for one in question.options["instances"]] == ["/x", "perhaps"]


def test_models_are_fetched_present_or_quantized() -> None:
    models = [{"path": "/there.gguf"}, {"path": "/x.gguf", "url": "https://h/x.gguf", "checksum": PINNED}]
    made = [{"path": "/small.gguf", "source": "/x.gguf", "type": "Q4_K_M"}]
    question = ask(
        "llama",
        epyc_llama_instances=[CHAT],
        epyc_llama_models=models,
        epyc_llama_quantized=made,
        epyc_llama_install="source",
    )
    assert question.options["fetched"] == [{"path": "/x.gguf", "checksum": [PINNED]}]
    assert question.options["present"] == ["/there.gguf"]
    assert question.options["made"] == [REFUSED_MODEL, "/small.gguf"]
    assert (question.options["binary"], question.options["installs"]) == (None, True)


def test_an_unknown_model_is_refused_once_and_the_rest_is_checked() -> None:
    question = ask("llama", epyc_llama_instances=[{**CHAT, "model": "nosuch"}], epyc_llama_models=[])
    (refusal,) = question.refusals
    assert refusal.startswith("Instance chat: model: there is no model nosuch")
    assert question.options["instances"][0]["model"] == REFUSED_MODEL
    question = ask("llama", epyc_llama_instances=[{**CHAT, "model": "nosuch"}], epyc_llama_models=[{"name": "nosuch"}])
    (refusal,) = question.refusals
    assert refusal.startswith("epyc_llama_models: there is no model nosuch")


def test_values_that_a_role_would_refuse_later_are_refused_now() -> None:
    (refusal,) = ask("numa", epyc_numa_thp="sometimes").refusals
    assert refusal.startswith("Variables of the layer numa: value of epyc_numa_thp must be one of")
    assert ask("cat", epyc_numa_thp="sometimes").refusals == [], "that layer does not run"


@pytest.mark.parametrize(
    "layer", sorted({path.parents[1].name.removeprefix("epyc_") for path in ROLES.glob("*/defaults/main.yml")})
)
def test_the_defaults_of_each_role_are_accepted(layer: str) -> None:
    assert ask(layer).refusals == []


def test_bios_settings_are_refused_where_their_originals_would_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/tmp/awx_7_x")
    monkeypatch.setenv("AWX_ISOLATED_DATA_DIR", str(tmp_path / "artifacts/7"))
    host = {"epyc_bios_bmc": "bmc", "inventory_dir": str(tmp_path / "inventory"), "inventory_hostname": "one"}
    (refusal,) = ask("bios", **host).refusals
    assert refusal.startswith(f"{tmp_path}/inventory/.bios/one.json would be in {tmp_path}, which AWX deletes")
    assert "Set epyc_bios_originals to a path in a folder that stays" in refusal
    assert ask("bios", **host, epyc_bios_state="original").refusals == []
    assert ask("bios", **host, epyc_bios_originals=str(tmp_path.parent / "one.json")).refusals == []
    assert ask("numa", **host).refusals == [], "that layer does not run"


def test_boot_parameters_wait_for_the_plan() -> None:
    assert "boot_parameters" not in ask("grub_params", epyc_grub_params_isolation="safe").options
    plan = {"plan": {"cpus": {"housekeeping": "0", "draft": "", "verify": "1-3", "idle": ""}}}
    result = {"ansible_facts": {"epyc": plan}}
    options = ask("grub_params", epyc_grub_params_isolation="safe", epyc_plan_result=result).options
    assert "nohz_full={verify}" in options["boot_parameters"]["parameters"]


def test_the_message_has_a_line_for_each_refusal() -> None:
    assert format_refusals_message(["One. Nothing was changed."]) == "One. Nothing was changed."
    assert format_refusals_message(["One.", "Two. Nothing was changed.", "One."]) == "One.\nTwo.\nNothing was changed."
