# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models by short names: a catalogue of checked files, and the paths that instances get in place of names.

The controller looks names up, so that a host gets only paths, URLs and checksums.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.checksum import ALGORITHM, parse_checksum
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.gguf_parts import list_gguf_parts
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import require_whole_number
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.catalogue_model import NEVER_FETCHED
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import (
    require_list,
    require_table,
    require_tables,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._model_facts import FACT_KEYS, validate_model_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Entry = Mapping[str, Any]

#: The entries that come with the collection.
FILE = Path(__file__).with_name("model_catalogue.yml")
FILE_KEYS = {"drafts", "file", "licence", "parts", "repository", "revision", "source", "template", "url", "vocabulary"}
KEYS = FILE_KEYS | FACT_KEYS
#: The facts of an entry that go to the instances of its model.
INSTANCE_FACTS = ("drafts", "licence", "mtp", "sampling", "template", "vocabulary")
#: In place of a checksum: the module model_file takes the checksum that the server of the file sends.
CHECKSUM_OF_SERVER = "server"
#: The chat template that a model file contains.
TEMPLATE_IN_FILE = "own"
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*\Z")
COMMIT = re.compile(r"[0-9a-f]{40}\Z")


def merge_user_entries_into_catalogue(user_entries: Any) -> dict[str, dict[str, Any]]:
    """Return the entries of the collection by name, replaced and completed by the entries of the user.

    Raises BadRequest for an invalid entry.
    """
    entries = dict(_load_entries_of_collection())
    for name, entry in require_table(user_entries or {}, "epyc_llama_catalogue").items():
        entries[name] = _validate_entry(f"epyc_llama_catalogue: {name}", entry)
    return entries


@functools.lru_cache(maxsize=1)
def _load_entries_of_collection() -> dict[str, dict[str, Any]]:
    """Return the checked entries of the collection by name. They are read once for all hosts of a run."""
    entries = yaml_load(FILE.read_text(encoding="utf-8"))
    return {name: _validate_entry(f"{FILE.name}: {name}", entry) for name, entry in entries.items()}


def resolve_models(requested: Any, user_entries: Any, endpoint: str, folder: str) -> list[dict[str, Any]]:
    """Return each requested model with its path, URL, checksums, and other facts that instances need.

    ``endpoint`` is the URL of the hub, and ``folder`` is the place of files whose entry has no path. Raises BadRequest
    for a model that cannot be found, or whose file no checksum identifies.
    """
    entries = merge_user_entries_into_catalogue(user_entries)
    models: list[dict[str, Any]] = []
    for request in require_tables(requested, "epyc_llama_models", "models"):
        model = _resolve_model(request, entries, endpoint.rstrip("/"), folder.rstrip("/"))
        for other in models:
            if model["name"] and model["name"] == other["name"]:
                raise BadRequest(f"epyc_llama_models names {model['name']} twice: leave one out.")
            if model["path"] == other["path"] and model != other:
                raise BadRequest(f"epyc_llama_models has two models at {model['path']}: give one of them another path.")
        models.append(model)
    return models


def insert_model_paths(instances: Any, models: Sequence[Entry], user_entries: Any) -> list[dict[str, Any]]:
    """Return the instances with the path of each model in place of its name. ``models`` are those of resolve_models.

    Raises BadRequest for a name that no model has, and for a draft model with another vocabulary than its model.
    """
    by_name = {model["name"]: model for model in models if model["name"]}
    rows = require_tables(instances, "epyc_llama_instances", "instances")
    return [_insert_paths_of_instance(instance, by_name, user_entries) for instance in rows]


def _insert_paths_of_instance(instance: Entry, by_name: Mapping[str, Entry], user_entries: Any) -> dict[str, Any]:
    place = f"Instance {instance.get('name', '?')}"
    placed, models = dict(instance), {}
    for key in ("model", "draft_model"):
        name = instance.get(key)
        if name and not str(name).startswith("/"):
            models[key] = _require_known_model(f"{place}: {key}", str(name), by_name, user_entries)
            placed[key] = models[key]["path"]
    if instance.get("models"):
        placed["models"] = _model_paths_of_router(place, instance["models"], by_name, user_entries)
    if len(models) == 2:
        _require_same_vocabulary(place, models["model"], models["draft_model"])
    if "fetched" in models.get("model", {}):
        _add_facts_of_catalogue(placed, models["model"])
    template = models.get("model", {}).get("template", TEMPLATE_IN_FILE)
    arguments = list(require_list(instance.get("extra_arguments"), f"{place}: extra_arguments", "words"))
    if template != TEMPLATE_IN_FILE and not any(str(word).startswith("--chat-template") for word in arguments):
        placed["extra_arguments"] = [*arguments, "--chat-template", template]
    return placed


def _add_facts_of_catalogue(instance: dict[str, Any], model: Entry) -> None:
    """Give an instance what the catalogue says of its model, with the recommended sampling unless it has its own."""
    is_recommended = "sampling" not in instance and bool(model.get("sampling")) and _generates_text(instance)
    if is_recommended:
        instance["sampling"] = dict(model["sampling"])
    instance["catalogue_model"] = {
        "name": model["name"],
        "fetched": model["fetched"],
        "recommended_sampling": is_recommended,
    }


def _generates_text(instance: Entry) -> bool:
    return str(instance.get("task") or "completion") == "completion"


def _model_paths_of_router(place: str, models: Any, by_name: Mapping[str, Entry], user_entries: Any) -> dict[str, str]:
    """Return alias -> path for the models of a router. Its models can only have the chat template in their files."""
    paths = {}
    for alias, name in require_table(models, f"{place}: models").items():
        is_path = str(name).startswith("/")
        model = None if is_path else _require_known_model(f"{place}: models", str(name), by_name, user_entries)
        if model and model["template"] != TEMPLATE_IN_FILE:
            raise BadRequest(
                f"{place}: models: {name} needs the chat template {model['template']}, and the template of an instance "
                "holds for all of its models. Give it an instance of its own."
            )
        paths[alias] = model["path"] if model else str(name)
    return paths


def _require_known_model(place: str, name: str, by_name: Mapping[str, Entry], user_entries: Any) -> Entry:
    if name in by_name:
        return by_name[name]
    entries = merge_user_entries_into_catalogue(user_entries)
    if name in entries:
        raise BadRequest(
            f"{place}: {name} is not in epyc_llama_models, so it is not fetched: add {{name: {name}}} there."
        )
    raise BadRequest(f"{place}: {_unknown_model_message(name, {**entries, **by_name})} A path begins with /.")


def _require_same_vocabulary(place: str, model: Entry, draft: Entry) -> None:
    vocabularies = [entry.get("vocabulary") for entry in (model, draft)]
    if None in vocabularies or vocabularies[0] == vocabularies[1]:
        return
    fitting = model.get("drafts") or []
    raise BadRequest(
        f"{place}: {draft['name']} cannot draft for {model['name']}, because it has the vocabulary of "
        f"{vocabularies[1]} and the model that of {vocabularies[0]}: take "
        f"{' or '.join(fitting) if fitting else 'a draft of the same family'}."
    )


def _resolve_model(request: Entry, entries: Mapping[str, Entry], endpoint: str, folder: str) -> dict[str, Any]:
    """Return one entry of epyc_llama_models with its URL, checksums and path."""
    name = str(request["name"]) if request.get("name") else None
    label = name or request.get("file") or request.get("path") or request.get("url") or request
    place = f"epyc_llama_models: {label}"
    if request.get("repository"):
        model = _hub_file_url_and_checksums(place, request, endpoint)
    elif request.get("url"):
        model = {
            "url": str(request["url"]),
            "checksum": _list_valid_checksums(place, request.get("checksum")),
            "hub": False,
        }
    elif name and name in entries and request.get("checksum"):
        raise BadRequest(
            f"{place}: the catalogue has its checksums; leave checksum out, or add it to epyc_llama_catalogue."
        )
    elif name and name in entries:
        model = _catalogue_file_url_and_checksums(place, request, entries[name], endpoint)
    elif request.get("path"):
        model = {"url": None, "checksum": _list_valid_checksums(place, request.get("checksum")), "hub": False}
    elif name:
        raise BadRequest(
            f"epyc_llama_models: {_unknown_model_message(name, entries)} Give url or repository for a model of your "
            "own."
        )
    else:
        raise BadRequest(f"{place}: give a name of the catalogue, a repository with its file, a url, or a path.")
    path = str(request.get("path") or f"{folder}/{Path(_decode_path_of_url(model['url'], place)).name}")
    if model["url"] and len(model["checksum"]) not in (0, 1, len(list_gguf_parts(path))):
        raise BadRequest(f"{place}: {path} is not the first of {len(model['checksum'])} files; keep their names.")
    return {"size": None, "template": TEMPLATE_IN_FILE, **model, "name": name, "path": path}


def _hub_file_url_and_checksums(place: str, request: Entry, endpoint: str) -> dict[str, Any]:
    """Return URL and checksums of a file of a hub. Either checksums or the answer of the hub identify the file."""
    checksums = _list_valid_checksums(place, request.get("checksum"))
    trusted = bool(request.get("trust_hub"))
    if bool(checksums) == trusted:
        raise BadRequest(
            f"{place}: give either its checksum or trust_hub, with which the checksum that the hub sends is taken; the "
            "hub shows the SHA-256 on the page of the file."
        )
    if trusted:
        _require_commit(place, request.get("revision"))
    return {"url": _build_hub_url(place, request, endpoint), "checksum": checksums or [CHECKSUM_OF_SERVER], "hub": True}


def _require_commit(place: str, revision: Any) -> None:
    if not COMMIT.match(str(revision or "")):
        raise BadRequest(
            f"{place}: trust_hub needs as revision a commit of 40 hexadecimal digits, because a branch may have "
            "another file tomorrow; the hub shows it under History."
        )


def _catalogue_file_url_and_checksums(place: str, request: Entry, entry: Entry, endpoint: str) -> dict[str, Any]:
    """Return URL, sizes and checksums of a catalogue entry, and the facts that instances need.

    A request may add ``trust_hub`` and ``revision`` for an entry that states no checksums.
    """
    parts = entry["parts"]
    sizes = [part.get("size") for part in parts]
    entry = {**entry, "revision": entry.get("revision") or request.get("revision")}
    checksums = [f"{ALGORITHM}{part['sha256']}" for part in parts if part.get("sha256")]
    if not checksums and entry.get("repository"):
        _require_trusted_hub(place, request, entry)
        checksums = [CHECKSUM_OF_SERVER]
    return {
        **{key: entry[key] for key in INSTANCE_FACTS if entry.get(key)},
        "fetched": entry["fetched"],
        "url": entry.get("url") or _build_hub_url(place, entry, endpoint),
        "checksum": checksums,
        "size": sizes if None not in sizes else None,
        "hub": "repository" in entry,
    }


def _require_trusted_hub(place: str, request: Entry, entry: Entry) -> None:
    """Raise BadRequest unless the request takes the checksums that the hub sends for one commit of the repository."""
    if not request.get("trust_hub"):
        revision = "" if entry["revision"] else ", and as revision a commit of the repository"
        raise BadRequest(
            f"{place}: the catalogue knows no checksum of this model, because it was {NEVER_FETCHED}. Give trust_hub: "
            f"true{revision}, and the checksums that the hub sends are taken."
        )
    _require_commit(place, entry["revision"])


def _build_hub_url(place: str, entry: Entry, endpoint: str) -> str:
    repository, file = str(entry["repository"]), str(entry.get("file") or "")
    if not endpoint.startswith(("https://", "http://")):
        raise BadRequest(f"epyc_llama_hub_endpoint: '{endpoint}' is no address; set one that begins with https://.")
    if not REPOSITORY.match(repository):
        raise BadRequest(f"{place}: '{repository}' is no repository; give ORG/NAME.")
    if not file.endswith(".gguf") or file.startswith("/") or ".." in file.split("/"):
        raise BadRequest(f"{place}: '{file}' is no file of the repository; give its path there, which ends in .gguf.")
    return f"{endpoint}/{repository}/resolve/{quote(str(entry.get('revision') or 'main'), safe='')}/{quote(file)}"


def _validate_entry(place: str, entry: Any) -> dict[str, Any]:
    """Return an entry with checked parts and facts, and with derived numbers; raises BadRequest for an invalid one."""
    if not isinstance(entry, Mapping):
        raise BadRequest(f"{place} is no dictionary; docs/models.md shows one.")
    unknown = sorted(set(require_table(entry, place)) - KEYS)
    if unknown:
        raise BadRequest(f"{place} has {unknown[0]}, which no entry has: {', '.join(sorted(KEYS))}.")
    if bool(entry.get("url")) == bool(entry.get("repository")):
        raise BadRequest(f"{place} needs either repository and file, or url.")
    file = str(entry.get("url") or entry.get("file") or "")
    expected = len(list_gguf_parts(_decode_path_of_url(file, place) if entry.get("url") else file))
    stated = [{}] * expected if entry.get("parts") is None else entry["parts"]
    parts = [dict(part) for part in require_tables(stated, f"{place}: parts", "parts")]
    if len(parts) != expected:
        raise BadRequest(
            f"{place} has {len(parts)} parts, but {expected} files: give sha256 and size of each in parts."
        )
    for part in parts:
        if set(part) - {"sha256", "size"}:
            raise BadRequest(f"{place}: a part has sha256 and size, and nothing else.")
        if part.get("sha256") is not None:
            _list_valid_checksums(place, f"{ALGORITHM}{part['sha256']}")
        if part.get("size") is not None:
            part["size"] = require_whole_number(part["size"], f"{place}: size")
    if len({bool(part.get("sha256")) for part in parts}) > 1:
        raise BadRequest(f"{place}: some parts have a sha256 and some have none: give it for all parts or for none.")
    checked = {**entry, "parts": parts}
    return {**checked, **validate_model_facts(place, checked)}


def _list_valid_checksums(place: str, option: Any) -> list[str]:
    """Return the checksums of an option that is one checksum or a list; raises BadRequest for an invalid one."""
    checksums = [str(checksum) for checksum in (option if isinstance(option, (list, tuple)) else [option]) if checksum]
    for checksum in checksums:
        try:
            parse_checksum(checksum)
        except BadRequest as error:
            raise BadRequest(f"{place}: {error}") from None
    return checksums


def _decode_path_of_url(url: str, place: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        raise BadRequest(f"{place}: '{url}' is no URL. Give one that begins with https://.") from None


def _unknown_model_message(name: str, known: Iterable[str]) -> str:
    """Return the sentence that no model has a name, with up to three similar names."""
    similar = difflib.get_close_matches(name, [str(entry) for entry in known], 3, 0.5)
    hint = f"near are {', '.join(similar)}" if similar else "docs/model-catalogue.md lists them"
    return f"there is no model {name}; {hint}."
