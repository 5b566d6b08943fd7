# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses models that the server of an instance cannot load, by their files, before a running instance is touched."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._io.safe_open import open_file
from ..._models import model as gguf_model
from ..._models.gguf import LONGEST_TEMPLATE
from ..._models.serving_checks.chat_template import chat_template_faults
from ..._models.serving_checks.engine_support import unknown_architecture_reasons, unreadable_type_reasons
from ..._models.serving_checks.hyperparameters import unusable_header_value_reasons, unusable_tokenizer_reasons
from ..._models.serving_checks.projector import unsuitable_projector_reasons
from ..._models.serving_checks.tensors import misplaced_tensor_reasons, missing_or_wrongly_shaped_tensor_reasons
from ..._models.serving_checks.weight_samples import all_zero_matrix_reasons
from .capabilities import LLAMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..._models.model import Model
    from ..options.option_table import OptionTable
    from .capabilities import Capabilities

#: Arguments that replace the chat template of a model, or with which the server does not parse it.
TEMPLATE_FLAGS = ("--chat-template", "--no-jinja")
OVERRIDE_FLAG = "--override-kv"
#: The templates of a model that a server parses at its start.
PARSED_TEMPLATES = ("tokenizer.chat_template", "tokenizer.chat_template.tool_use")


class ServedFiles:
    """The models of an instance by their part in it; a file that is not there yet is left out."""

    def __init__(self, options: OptionTable, pending: Collection[str] = ()) -> None:
        def read(paths: Iterable[str | None]) -> list[Model]:
            return [gguf_model.read_model(path) for path in paths if path and path not in pending]

        self.options = options
        self.models = read(options.model_paths)
        self.drafts = read([options.draft_model] if options.uses_draft else [])
        self.projectors = read([options.projector])
        self.adapters = read(options.adapters)

    @property
    def list_all_models(self) -> list[Model]:
        return [*self.models, *self.drafts, *self.projectors, *self.adapters]


def require_sound_headers(files: ServedFiles, server: Capabilities | None) -> None:
    """Raise BadRequest where the plan of an instance cannot count with the headers of its models.

    ``server`` is None while the server is not installed.
    """
    _raise_bad_request_for_first_reason(_unsound_header_reasons(files, server))


def require_loadable_models(files: ServedFiles, server: Capabilities | None) -> None:
    """Raise BadRequest where a server cannot load a model of an instance, or would answer with noise."""
    _raise_bad_request_for_first_reason(_unloadable_model_reasons(files, server))


def _raise_bad_request_for_first_reason(reasons: Iterator[str]) -> None:
    for reason in reasons:
        raise BadRequest(reason)


def _unsound_header_reasons(files: ServedFiles, server: Capabilities | None) -> Iterator[str]:
    arguments = files.options.extra_arguments
    overrides = " ".join(arguments) if any(argument.startswith(OVERRIDE_FLAG) for argument in arguments) else ""
    for model in [*files.models, *files.drafts]:
        if server:
            yield from unknown_architecture_reasons(model, server.title, server.holds_name)
        yield from unusable_header_value_reasons(model, overrides)
    if server:
        for model in files.list_all_models:
            yield from unreadable_type_reasons(model, server.engine, server.binary, server.holds_name)
    for model, projector in zip(files.models, files.projectors):
        yield from unsuitable_projector_reasons(model, projector)


def _unloadable_model_reasons(files: ServedFiles, server: Capabilities | None) -> Iterator[str]:
    engine = server.engine if server else None
    for model in files.list_all_models:
        yield from misplaced_tensor_reasons(model, engine)
    for model in [*files.models, *files.drafts]:
        yield from missing_or_wrongly_shaped_tensor_reasons(model)
    for model in files.models:
        yield from unusable_tokenizer_reasons(model)
    if engine == LLAMA:
        yield from _unparsable_chat_template_reasons(files)
    for model in [*files.models, *files.drafts, *files.projectors]:
        yield from all_zero_matrix_reasons(model)


def _unparsable_chat_template_reasons(files: ServedFiles) -> Iterator[str]:
    """Yield why the server could not parse a chat template. ik_llama.cpp takes another template in its place."""
    options = files.options
    if any(argument.startswith(TEMPLATE_FLAGS) for argument in options.extra_arguments):
        return
    if options.chat_template:
        with open(open_file(options.chat_template), encoding="utf-8", errors="replace") as file:
            templates = [(f"chat_template: {options.chat_template}", file.read(LONGEST_TEMPLATE))]
    else:
        templates = [
            (f"{model.path} has a chat template ({key}) that", text)
            for model in files.models
            for key, text in model.parts[0].chat_templates.items()
            if key in PARSED_TEMPLATES
        ]
    for subject, template in templates:
        for fault in chat_template_faults(template):
            yield (
                f"{subject} cannot be parsed: {fault}. Give a right one as chat_template, or take another file of this "
                "model."
            )
