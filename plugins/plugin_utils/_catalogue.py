# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models by short names: a catalogue of checked files, what epyc_llama_models asks for, and what instances make of it.

All of it happens on the controller, so that a host gets paths, URLs and checksums, and never a name to look up.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.checksum import ALGORITHM, parse_checksum
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.gguf_parts import list_gguf_parts
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import require_whole
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import require_list, require_table, require_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Entry = Mapping[str, Any]

#: The entries that come with the collection.
FILE = Path(__file__).parents[2] / "roles/epyc_llama/files/catalogue.yml"
KEYS = {"drafts", "file", "licence", "parts", "repository", "revision", "source", "template", "url", "vocabulary"}
#: In place of a checksum, for the module: the one that the server says.
SERVER = "server"
#: The template that is in the file itself.
OWN = "own"
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*\Z")
COMMIT = re.compile(r"[0-9a-f]{40}\Z")


def catalogue(own: Any) -> dict[str, dict[str, Any]]:
    """Return all entries by name. ``own`` are the user's, which win; BadRequest for one that says no file."""
    entries = dict(yaml_load(FILE.read_text(encoding="utf-8")))
    for name, entry in require_table(own or {}, "epyc_llama_catalogue").items():
        entries[name] = _checked(f"epyc_llama_catalogue: {name}", entry)
    return entries


def model_files(asked: Any, own: Any, endpoint: str, folder: str) -> list[dict[str, Any]]:
    """Return what epyc_llama_models asks for, each with what the module model_file takes and what instances need of it.

    ``endpoint`` is the address of the hub and ``folder`` where files are that say no path. BadRequest for what is not
    there, or not known by a checksum.
    """
    entries = catalogue(own)
    made: list[dict[str, Any]] = []
    for raw in require_tables(asked, "epyc_llama_models", "models"):
        one = _asked(raw, entries, endpoint.rstrip("/"), folder.rstrip("/"))
        for other in made:
            if one["name"] and one["name"] == other["name"]:
                raise BadRequest(f"epyc_llama_models names {one['name']} twice: leave one out.")
            if one["path"] == other["path"] and one != other:
                raise BadRequest(f"epyc_llama_models has two models at {one['path']}: give one of them another path.")
        made.append(one)
    return made


def with_models(instances: Any, files: Sequence[Entry], own: Any) -> list[dict[str, Any]]:
    """Return the instances with paths in place of names. ``files`` are those of model_files.

    BadRequest for a name that is not among them, and for a draft that guesses in another vocabulary.
    """
    named = {one["name"]: one for one in files if one["name"]}
    return [_placed(one, named, own) for one in require_tables(instances, "epyc_llama_instances", "instances")]


def _placed(instance: Entry, named: Mapping[str, Entry], own: Mapping[str, Entry]) -> dict[str, Any]:
    who = f"Instance {instance.get('name', '?')}"
    made, found = dict(instance), {}
    for key in ("model", "draft_model"):
        name = instance.get(key)
        if name and not str(name).startswith("/"):
            found[key] = _of_instance(f"{who}: {key}", str(name), named, own)
            made[key] = found[key]["path"]
    if instance.get("models"):
        made["models"] = _of_router(who, instance["models"], named, own)
    if len(found) == 2:
        _check_draft(who, found["model"], found["draft_model"])
    template = found.get("model", {}).get("template", OWN)
    arguments = list(require_list(instance.get("extra_arguments"), f"{who}: extra_arguments", "words"))
    if template != OWN and not any(str(one).startswith("--chat-template") for one in arguments):
        made["extra_arguments"] = [*arguments, "--chat-template", template]
    return made


def _of_router(who: str, models: Any, named: Mapping[str, Entry], own: Mapping[str, Entry]) -> dict[str, str]:
    """Return the files of several models behind one instance, which have the templates that they carry."""
    placed = {}
    for alias, model in require_table(models, f"{who}: models").items():
        entry = None if str(model).startswith("/") else _of_instance(f"{who}: models", str(model), named, own)
        if entry and entry["template"] != OWN:
            raise BadRequest(
                f"{who}: models: {model} needs the chat template {entry['template']}, and what an instance says holds "
                "for all of its models. Give it an instance of its own."
            )
        placed[alias] = entry["path"] if entry else str(model)
    return placed


def _of_instance(what: str, name: str, named: Mapping[str, Entry], own: Mapping[str, Entry]) -> Entry:
    if name in named:
        return named[name]
    entries = catalogue(own)
    if name in entries:
        raise BadRequest(
            f"{what}: {name} is not in epyc_llama_models, so it is not fetched: add {{name: {name}}} there."
        )
    raise BadRequest(f"{what}: {_unknown(name, {**entries, **named})} A path begins with /.")


def _check_draft(who: str, model: Entry, draft: Entry) -> None:
    spoken = [one.get("vocabulary") for one in (model, draft)]
    if None in spoken or spoken[0] == spoken[1]:
        return
    fitting = model.get("drafts") or []
    raise BadRequest(
        f"{who}: {draft['name']} cannot draft for {model['name']}, because it has the vocabulary of {spoken[1]} and "
        f"the model that of {spoken[0]}: take {' or '.join(fitting) if fitting else 'a draft of the same family'}."
    )


def _asked(raw: Entry, entries: Mapping[str, Entry], endpoint: str, folder: str) -> dict[str, Any]:
    """Return one entry of epyc_llama_models as it is handed on."""
    name = str(raw["name"]) if raw.get("name") else None
    what = f"epyc_llama_models: {name or raw.get('file') or raw.get('path') or raw.get('url') or raw}"
    if raw.get("repository"):
        made = _of_repository(what, raw, endpoint)
    elif raw.get("url"):
        made = {"url": str(raw["url"]), "checksum": _checksums(what, raw.get("checksum")), "hub": False}
    elif name and name in entries and raw.get("checksum"):
        raise BadRequest(
            f"{what}: the catalogue has its checksums; leave checksum out, or add it to epyc_llama_catalogue."
        )
    elif name and name in entries:
        made = _of_catalogue(what, entries[name], endpoint)
    elif raw.get("path"):
        made = {"url": None, "checksum": _checksums(what, raw.get("checksum")), "hub": False}
    elif name:
        raise BadRequest(
            f"epyc_llama_models: {_unknown(name, entries)} Give url or repository for a model of your own."
        )
    else:
        raise BadRequest(f"{what}: give a name of the catalogue, a repository with its file, a url, or a path.")
    path = str(raw.get("path") or f"{folder}/{Path(_path_of(made['url'], what)).name}")
    if made["url"] and len(made["checksum"]) not in (0, 1, len(list_gguf_parts(path))):
        raise BadRequest(f"{what}: {path} is not the first of {len(made['checksum'])} files; keep their names.")
    return {"size": None, "template": OWN, **made, "name": name, "path": path}


def _of_repository(what: str, raw: Entry, endpoint: str) -> dict[str, Any]:
    """Return a file of a hub, which its checksum or the hub's own word pins."""
    checksums = _checksums(what, raw.get("checksum"))
    trusted = bool(raw.get("trust_hub"))
    if bool(checksums) == trusted:
        raise BadRequest(
            f"{what}: give either its checksum or trust_hub, which takes the hub's own word for it; the hub shows the "
            "SHA-256 on the page of the file."
        )
    if trusted and not COMMIT.match(str(raw.get("revision") or "")):
        raise BadRequest(
            f"{what}: trust_hub needs as revision a commit of 40 hexadecimal digits, because a branch may have another "
            "file tomorrow; the hub shows it under History."
        )
    return {"url": _url(what, raw, endpoint), "checksum": checksums or [SERVER], "hub": True}


def _of_catalogue(what: str, entry: Entry, endpoint: str) -> dict[str, Any]:
    parts = entry["parts"]
    sizes = [part.get("size") for part in parts]
    kept = {key: entry[key] for key in ("drafts", "licence", "template", "vocabulary") if entry.get(key)}
    return {
        **kept,
        "url": entry.get("url") or _url(what, entry, endpoint),
        "checksum": [f"{ALGORITHM}{part['sha256']}" for part in parts],
        "size": sizes if None not in sizes else None,
        "hub": "repository" in entry,
    }


def _url(what: str, entry: Entry, endpoint: str) -> str:
    repository, file = str(entry["repository"]), str(entry.get("file") or "")
    if not endpoint.startswith(("https://", "http://")):
        raise BadRequest(f"epyc_llama_hub_endpoint: '{endpoint}' is no address; say one that begins with https://.")
    if not REPOSITORY.match(repository):
        raise BadRequest(f"{what}: '{repository}' is no repository; say ORG/NAME.")
    if not file.endswith(".gguf") or file.startswith("/") or ".." in file.split("/"):
        raise BadRequest(f"{what}: '{file}' is no file of the repository; say its path there, which ends in .gguf.")
    return f"{endpoint}/{repository}/resolve/{quote(str(entry.get('revision') or 'main'), safe='')}/{quote(file)}"


def _checked(what: str, entry: Any) -> dict[str, Any]:
    """Return an entry of the user, as those of the file are."""
    if not isinstance(entry, Mapping):
        raise BadRequest(f"{what} is no dictionary; docs/models.md shows one.")
    unknown = sorted(set(require_table(entry, what)) - KEYS)
    if unknown:
        raise BadRequest(f"{what} has {unknown[0]}, which no entry has: {', '.join(sorted(KEYS))}.")
    if bool(entry.get("url")) == bool(entry.get("repository")):
        raise BadRequest(f"{what} needs either repository and file, or url.")
    file = str(entry.get("url") or entry.get("file") or "")
    parts = [dict(part) for part in require_tables(entry.get("parts"), f"{what}: parts", "parts")]
    expected = len(list_gguf_parts(_path_of(file, what) if entry.get("url") else file))
    if len(parts) != expected:
        raise BadRequest(f"{what} has {len(parts)} parts, but {expected} files: give sha256 and size of each in parts.")
    for part in parts:
        if set(part) - {"sha256", "size"}:
            raise BadRequest(f"{what}: a part has sha256 and size, and nothing else.")
        _checksums(what, f"{ALGORITHM}{part.get('sha256')}")
        if part.get("size") is not None:
            part["size"] = require_whole(part["size"], f"{what}: size")
    return {**entry, "parts": parts}


def _checksums(what: str, given: Any) -> list[str]:
    checksums = [str(one) for one in (given if isinstance(given, (list, tuple)) else [given]) if one]
    for one in checksums:
        try:
            parse_checksum(one)
        except BadRequest as error:
            raise BadRequest(f"{what}: {error}") from None
    return checksums


def _path_of(url: str, what: str) -> str:
    """Return the path in a URL."""
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        raise BadRequest(f"{what}: '{url}' is no URL. Say one that begins with https://.") from None


def _unknown(name: str, known: Iterable[str]) -> str:
    """Return the sentence on a name that nobody has, with those that look like it."""
    near = difflib.get_close_matches(name, [str(one) for one in known], 3, 0.5)
    return f"there is no model {name}; {'near are ' + ', '.join(near) if near else 'docs/models.md lists them'}."
