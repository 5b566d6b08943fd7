# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances of a host as its inventory has them, checked for the options that gateways and monitoring need.

A filter gets the variables of all hosts at once, so each error sentence names the host and the variable.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole_number
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import HOST, NAME
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import FIELDS as VLLM_FIELDS
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _tuned_options
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import (
    require_list,
    require_printable_text,
    require_table,
    require_tables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variables of a host with its instances.
LLAMA, VLLM, TUNED = "epyc_llama_instances", "epyc_vllm_instances", "epyc_llama_tuned"
#: Options of an instance whose values, where they are set, are texts.
TEXT_OPTIONS = ("name", "alias", "model", "host", "task", "projector", "draft_model")


def list_llama_instances(host: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the instances of llama-server of a host, with tuned options in place of options of the inventory."""
    return _tuned_options.apply_tuned_options(host.get(LLAMA), host.get(TUNED), f"{host['inventory_hostname']}: ")


def list_vllm_instances(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the instances of vLLM of a host as its inventory has them."""
    return require_tables(host.get(VLLM), f"{host['inventory_hostname']}: {VLLM}", "instances")


def list_served_instances(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all instances of a host. Instances of vLLM have the key ``vllm``, and defaults for missing options.

    Raises BadRequest for an instance that clients could not reach or name.
    """
    served: list[Mapping[str, Any]] = [*list_llama_instances(host)]
    for instance in list_vllm_instances(host):
        options = {key: value for key, value in instance.items() if key != "extra_arguments" and value is not None}
        alias = instance.get("alias") or PurePosixPath(str(instance.get("model", ""))).name
        served.append({"slots": VLLM_FIELDS["slots"].default, **options, "alias": alias, "vllm": True})
    for instance in served:
        _refuse_invalid_instance(host, instance)
    return served


def _refuse_invalid_instance(host: Mapping[str, Any], instance: Mapping[str, Any]) -> None:
    variable = VLLM if instance.get("vllm") else LLAMA
    where = f"{host['inventory_hostname']}: {variable}: {instance.get('name') or '?'}"
    for key in TEXT_OPTIONS:
        if instance.get(key) is not None:
            require_printable_text(instance[key], f"{where}: {key}")
    if not NAME.match(str(instance.get("name") or "")):
        raise BadRequest(
            f"{where}: name is '{instance.get('name') or ''}': say a name of small letters, digits, - and _, of 40 "
            "characters at most."
        )
    if instance.get("models"):
        for alias, model in require_table(instance["models"], f"{where}: models").items():
            require_printable_text(model, f"{where}: models: {alias}")
        if instance.get("alias"):
            raise BadRequest(f"{where}: an instance with models has no alias beside them: leave one of them out.")
    elif not (instance.get("alias") or instance.get("model")):
        raise BadRequest(f"{where}: it has neither a model nor models: name one.")
    if parse_port(instance.get("port")) is None:
        shown = "missing" if instance.get("port") is None else f"'{instance['port']}'"
        raise BadRequest(f"{where}: port is {shown}: set it to a number from 1 to 65535.")
    if not HOST.match(str(instance.get("host") or FIELDS["host"].default)):
        raise BadRequest(f"{where}: host is '{instance['host']}': say an address, or the name of a host.")
    for key in ("slots", "models_loaded"):
        if instance.get(key) is not None and not parse_whole_number(instance[key]):
            raise BadRequest(f"{where}: {key} is '{instance[key]}': set it to a whole number from 1 up.")
    for key in ("extra_arguments", "workers", "clients"):
        require_list(instance.get(key), f"{where}: {key}", "words")
