# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several models behind one instance: a router of llama.cpp, which starts a server for each model that is in use.

The options of the instance hold for all servers of the router. The router reads the list of models from an INI file.
The unit contains this file as a credential of systemd. The servers listen on ports of the loopback.
Source: "Using multiple models" in tools/server/README.md, and common/preset.cpp, of llama.cpp build 11434.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from .unit_names import credential_path, instance_unit_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CREDENTIAL = "models.ini"
#: The names of models. A colon or a comma has a special meaning for the router, so no name may have one.
ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@+-]{0,126}\Z")
#: Characters that begin a comment in an INI file, at any place of a line.
COMMENTS = ";#"
#: At its start, a router lists the models in its download cache. A path that does not exist keeps this list empty.
ENVIRONMENT = {"LLAMA_CACHE": "/nonexistent"}
#: Options, and values of other options, that make sense for a single model only.
SINGLE_MODEL_OPTIONS = (
    "model",
    "alias",
    "draft_model",
    "projector",
    "adapters",
    "chat_template",
    "experts",
    "rpc_workers",
)
SINGLE_MODEL_VALUES = {"memory": "rows", "hugepages": "hugetlbfs"}


def parse_router_models(value: object) -> dict[str, str]:
    """Return the path of each model by the model's name; BadRequest for a name or a path that a router cannot read."""
    if not isinstance(value, dict):
        raise BadRequest(f"models must be a dictionary of names and files, as {{qwen: /srv/q.gguf}}, not '{value}'.")
    for name, path in value.items():
        if not isinstance(name, str) or not ALIAS.match(name):
            raise BadRequest(f"models: '{name}' is no name for a model. Take letters, digits and ._/@+- only.")
        text = str(path)
        if not text.startswith("/") or not text.isprintable() or text != text.strip() or set(text) & set(COMMENTS):
            raise BadRequest(
                f"models: '{text}' is no path that a router takes. Say the whole path, from / on; it must have no "
                "semicolon, no number sign, and no blank at an end."
            )
    return {name: str(path) for name, path in value.items()}


def validate_one_or_several_models(options: Any) -> None:
    """Raise BadRequest for an instance without a model, and for options that an instance with several models lacks."""
    if not options.models:
        if not options.model:
            raise BadRequest("model is missing: an instance needs a model, or several by name in models.")
        if options.models_loaded is not None:
            raise BadRequest("models_loaded has no effect without models. Name them, or leave it out.")
        return
    for key in SINGLE_MODEL_OPTIONS:
        if getattr(options, key):
            raise BadRequest(f"{key} is about one model, and models names several. Give that model its own instance.")
    for key, word in SINGLE_MODEL_VALUES.items():
        if getattr(options, key) == word:
            raise BadRequest(f"{key} {word} is about one file, and models names several. Take another {key}.")
    if options.uses_draft:
        raise BadRequest(
            f"speculation {options.speculation_text} needs a draft for one model, and models names several. Say ngram."
        )
    if options.watchdog is not None:
        raise BadRequest("watchdog asks the server of one model, and models names several. Leave it out.")
    if (options.models_loaded or 1) > len(options.models):
        raise BadRequest(f"models_loaded is {options.models_loaded}, and models names {len(options.models)}.")


def max_models_in_memory(options: Any) -> int:
    return int(options.models_loaded or len(options.models))


def build_router_parameters(options: Any) -> dict[str, object]:
    path = credential_path(instance_unit_name(options.name), CREDENTIAL)
    return {"models": path, "models_loaded": max_models_in_memory(options)}


def unit_lines_with_router_ini(options: Any) -> list[str]:
    """Return the line of a unit that contains the router's INI file; empty for an instance with one model."""
    if not options.models:
        return []
    rows = ["version = 1"]
    for number, (name, path) in enumerate(options.models.items()):
        rows += [f"[{name}]", f"model = {path}", f"stop-timeout = {options.stop_timeout}"]
        rows += ["load-on-startup = true"] if number < max_models_in_memory(options) else []
    # systemd resolves C escapes in SetCredential, and expands no specifiers such as %n there.
    text = "".join(f"{row}\\n" for row in (row.replace("\\", "\\\\") for row in rows))
    return [f"SetCredential={CREDENTIAL}:{text}"]


def list_models_loaded_at_start(options: Any) -> list[str]:
    """Return the names of the models that a router loads at its start; empty for an instance with one model."""
    return list(options.models)[: max_models_in_memory(options)] if options.models else []
