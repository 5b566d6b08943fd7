# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of one instance of llama-server: every name, default and choice is defined here only.

The argument spec of the module is made from ``FIELDS``; ``Options.parse`` reads a dictionary by the same table.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from ..._models import head
from ..._notation.numbers import parse_decimal, parse_whole
from ..._notation.sizes import UNITS, parse_bytes
from ..._notation.suggestions import suggestion_message
from . import adapters, kinds, router, sampling, settings, worker_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ENGINES = ("llama.cpp", "ik_llama.cpp")
TASKS = ("completion", "embedding", "rerank")
PLACEMENTS = ("shared", "first_ccd", "own_ccd")
MEMORY = ("bind", "interleave", "distribute", "rows", "local")
#: Those with which the server sends each thread to a node, and does not repack the weights.
BY_THREAD = ("distribute", "rows")
UPDATE_ORDERS = ("stop_first", "start_first")
HUGEPAGES = ("none", "thp", "pool", "hugetlbfs")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")
HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Field:
    """One option: its type as in an argument spec, and its valid values."""

    __slots__ = ("choices", "default", "high", "low", "required", "type")

    def __init__(
        self,
        kind: str,
        default: object = None,
        choices: tuple[str, ...] | None = None,
        low: float | None = None,
        high: float | None = None,
        required: bool = False,
    ) -> None:
        self.type = kind
        self.default = default
        self.choices = choices
        self.low = low
        self.high = high
        self.required = required


FIELDS = {
    # What is served, and where
    "name": Field("str", required=True),
    "binary": Field("path", required=True),
    "rpc_binary": Field("path"),
    "engine": Field("str", None, ENGINES),
    "model": Field("path"),
    "models": Field("dict", {}),
    "models_loaded": Field("int", low=1),
    "draft_model": Field("path"),
    "projector": Field("path"),
    "adapters": Field("dict", {}),
    "chat_template": Field("path"),
    "task": Field("str", "completion", TASKS),
    "alias": Field("str"),
    "host": Field("str", "127.0.0.1"),
    "port": Field("int", required=True, low=1024, high=65535),
    "api_key_file": Field("path"),
    "context": Field("int", 8192, low=1),
    "slots": Field("int", 1, low=1),
    "cache_type_k": Field("str", "f16", CACHE_TYPES),
    "cache_type_v": Field("str", "f16", CACHE_TYPES),
    "flash_attention": Field("str", None, ("on", "off", "auto")),
    "batch": Field("int", low=1),
    "ubatch": Field("int", low=1),
    "experts": Field("int", low=1),
    "sampling": Field("dict", {}),
    # What only ik_llama.cpp has
    "mla": Field("int", low=0, high=3),
    "attention_buffer": Field("int", low=1),
    "fused_moe": Field("bool"),
    # Other hosts
    "rpc_workers": Field("list", ()),
    "rpc_layers": Field("int", low=1),
    # Speculation
    "speculation": Field("list", ("ngram",), kinds.WORDS),
    "draft_max": Field("int", low=1, high=64),
    "draft_p_min": Field("float", low=0, high=1),
    "draft_cache_type_k": Field("str", None, CACHE_TYPES),
    "draft_cache_type_v": Field("str", None, CACHE_TYPES),
    "draft_placement": Field("str", "shared", PLACEMENTS),
    "draft_cpus": Field("str"),
    "rpc_port": Field("int", low=1024, high=65535),
    "ngram_lookup": Field("int", 6, low=1, high=1024),
    "ngram_max": Field("int", 8, low=1, high=1024),
    "ngram_min_hits": Field("int", 1, low=1),
    "suffix_corpus": Field("path"),
    # CPUs
    "cpus": Field("str"),
    "threads": Field("int", low=1, high=512),
    "threads_batch": Field("int", low=1, high=512),
    "draft_threads": Field("int", low=1, high=512),
    "l3_group": Field("str"),
    "draft_l3_group": Field("str"),
    # Memory
    "nodes": Field("str"),
    "memory": Field("str", None, MEMORY),
    "hugepages": Field("str", "none", HUGEPAGES),
    "hugetlbfs": Field("path", "/dev/hugepages"),
    "lock": Field("bool", False),
    "direct_io": Field("bool", False),
    "repack": Field("bool"),
    "prompt_cache": Field("str", "8GiB"),
    "checkpoints": Field("int", 32, low=0, high=1000),
    "bandwidth": Field("float", low=1, high=10000),
    # The unit
    "user": Field("str"),
    "extra_arguments": Field("list", ()),
    "extra_environment": Field("dict", {}),
    "unit_settings": Field("dict", {}),
    "restart_seconds": Field("int", 2, low=0),
    "restart_limit": Field("int", 5, low=1),
    "restart_limit_seconds": Field("int", low=1),
    "start_timeout": Field("int", low=1),
    "drain_timeout": Field("int", 60, low=0),
    "stop_timeout": Field("int", 5, low=1),
    "watchdog": Field("int", low=5),
    "update_order": Field("str", UPDATE_ORDERS[0], UPDATE_ORDERS),
}
#: Options that only have an effect with a draft model.
OF_A_DRAFT = (
    "draft_model",
    "draft_max",
    "draft_p_min",
    "draft_cache_type_k",
    "draft_cache_type_v",
    "draft_cpus",
    "draft_threads",
    "draft_l3_group",
    "rpc_port",
    "rpc_binary",
)
#: Options of a kind of speculation, and what to say so that they have an effect.
OF_A_KIND = {**dict.fromkeys(OF_A_DRAFT, "draft or cascade"), "suffix_corpus": "suffix"}
#: What has a form of its own.
OWN_READERS = {
    "adapters": adapters.read,
    "models": router.read,
    "sampling": sampling.read,
    "speculation": kinds.read,
    "unit_settings": settings.read,
}


class Options:
    """The options of one instance. An attribute for each of ``FIELDS``; None is "not set"."""

    __slots__ = tuple(FIELDS)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every option is an attribute; their types are in the table."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        for key in FIELDS:
            setattr(self, key, values[key])

    @property
    def paths(self) -> list[str]:
        """The files of its models, of each in several files the first."""
        return list(self.models.values()) if self.models else [self.model]

    @property
    def drafts(self) -> bool:
        """Whether a model or a head is asked for that drafts."""
        return self.drafting is not None

    @property
    def drafting(self) -> str | None:
        """The kind of speculation that drafts."""
        return next((word for word in self.speculation if word in kinds.DRAFTING), None)

    @property
    def guesses_by(self) -> str:
        """The kinds of speculation as one word of an inventory."""
        return ",".join(self.speculation) or "none"

    @property
    def speculates(self) -> bool:
        """Whether tokens may be guessed: not beside pictures, and only where a text is gone on with."""
        return bool(self.speculation and self.completes and not self.projector)

    @property
    def completes(self) -> bool:
        """Whether the server goes on with texts; else it turns them into vectors, or compares them."""
        return bool(self.task == "completion")

    @property
    def prompt_cache_mib(self) -> int:
        """MiB for prompts of earlier requests; only a text that is gone on with is worth keeping."""
        return parse_bytes(self.prompt_cache, "prompt_cache") // UNITS["MiB"] if self.completes else 0

    @property
    def checkpoints_kept(self) -> int:
        """Copies of the state of each slot."""
        return int(self.checkpoints) if self.completes else 0

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Options:
        """Read a dictionary of an inventory. Raises BadRequest, naming the key, for an invalid one."""
        if not isinstance(raw, dict):
            raise BadRequest(f"An instance is '{raw}'; it is a dictionary of {', '.join(_required())} and more.")
        for key in sorted(str(key) for key in set(raw) - set(FIELDS)):
            raise BadRequest(f"An instance has no option '{key}'; {suggestion_message(key, FIELDS, 'it takes')}")
        values = {}
        for key, field in FIELDS.items():
            value = raw.get(key)
            if value is None and field.required:
                raise BadRequest(f"{key} is missing: an instance needs {', '.join(_required())}.")
            values[key] = field.default if value is None else _read(key, field, value)
        options = cls(values)
        _check(options)
        return options


def idle_with(words: Sequence[str]) -> list[str]:
    """Return the options that have no effect with these kinds of speculation, and are refused beside them."""
    drafts = any(word in kinds.DRAFTING for word in words)
    return [key for key in OF_A_KIND if not (drafts if key in OF_A_DRAFT else "suffix" in words)]


def spec() -> dict[str, dict[str, Any]]:
    """Return the argument spec of an instance, for a module that has a default for ``binary``."""
    table: dict[str, dict[str, Any]] = {}
    for key, field in FIELDS.items():
        row: dict[str, Any] = {"type": field.type}
        if field.required and key != "binary":
            row["required"] = True
        if field.choices:
            row["choices"] = list(field.choices)
        if field.type == "list":
            row["elements"] = "str"
        if field.default is not None:
            row["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        # The value is the path of a file with keys, not a key.
        if key == "api_key_file":
            row["no_log"] = False
        table[key] = row
    return table


def _required() -> list[str]:
    return [key for key, field in FIELDS.items() if field.required]


def _read(key: str, field: Field, value: object) -> Any:
    """Return a value in its type, or refuse it."""
    if key in OWN_READERS:
        return OWN_READERS[key](value)
    if field.type == "bool":
        if not isinstance(value, bool):
            raise BadRequest(f"{key} is '{value}'; say true or false.")
        return value
    if field.type in ("int", "float"):
        return _number(key, field, value)
    if field.type == "list":
        if not isinstance(value, (list, tuple)) or isinstance(value, str):
            raise BadRequest(f"{key} must be a list of words, as ['--top-k', '20'], not '{value}'.")
        return tuple(_text(key, str(word)) for word in value)
    if field.type == "dict":
        if not isinstance(value, dict):
            raise BadRequest(f"{key} must be a dictionary of names and values, not '{value}'.")
        return {_variable(key, name): _text(key, str(text)) for name, text in value.items()}
    if key in ("cpus", "draft_cpus") and isinstance(value, (list, tuple)):
        value = ",".join(str(word) for word in value)
    text = _text(key, str(value))
    if not text:
        raise BadRequest(f"{key} is empty; leave it out where it shall not be said.")
    if field.choices and text not in field.choices:
        raise BadRequest(f"{key} is '{text}'; say one of {', '.join(field.choices)}.")
    if field.type == "path" and not text.startswith("/"):
        raise BadRequest(f"{key} is '{text}'; say the whole path, beginning with /.")
    return text


def _number(key: str, field: Field, value: object) -> float:
    number = (parse_whole if field.type == "int" else parse_decimal)(value)
    low, high = field.low, field.high
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        limits = f"from {low} to {high}" if high is not None else f"from {low} up"
        raise BadRequest(f"{key} is '{value}'; say a {'whole ' if field.type == 'int' else ''}number {limits}.")
    return number


def _text(key: str, text: str) -> str:
    """Refuse text that a line of a unit file cannot hold."""
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise BadRequest(f"{key} holds a control character in {text!r}; a unit file cannot carry it. Leave it out.")
    return text


def _variable(key: str, name: object) -> str:
    if not isinstance(name, str) or not VARIABLE.match(name):
        raise BadRequest(f"{key}: '{name}' is not a name of an environment variable.")
    return name


def _check(options: Options) -> None:
    """Refuse options that exclude each other on any host."""
    for key, pattern, what in (
        ("name", NAME, "a name of small letters, digits, - and _, of 40 characters at most"),
        ("user", USER, "the name of a system user"),
        ("host", HOST, "an address or a host name"),
    ):
        value = getattr(options, key)
        if value is not None and not pattern.match(value):
            raise BadRequest(f"{key} is '{value}'; say {what}.")
    if options.name.endswith("-rpc"):
        raise BadRequest(
            f"name is '{options.name}'; names that end in -rpc are reserved for the units of drafts. Choose "
            "another name."
        )
    router.check(options)
    if options.update_order == "start_first" and (options.hugepages == "hugetlbfs" or options.rpc_workers):
        other = "rpc_workers serve one server" if options.rpc_workers else "a hugetlbfs holds one copy"
        raise BadRequest(f"update_order start_first has the instance run twice, and {other}. Take stop_first.")
    if options.user == "root":
        raise BadRequest("user is root; the server needs no such rights. Name a system user, or leave user out.")
    for key in ("binary", "rpc_binary"):
        # systemd expands variables everywhere except in the path of the program.
        if "$" in (getattr(options, key) or ""):
            raise BadRequest(f"{key}: systemd runs no program with a $ in its path; rename the file.")
    if parse_bytes(options.prompt_cache, "prompt_cache") % UNITS["MiB"]:
        raise BadRequest(f"prompt_cache: '{options.prompt_cache}' is no whole number of MiB, in which a server counts.")
    if options.drafts and not options.completes:
        raise BadRequest(f"task is {options.task}, which guesses no tokens: leave speculation out.")
    if options.sampling and not options.completes:
        raise BadRequest(f"task is {options.task}, which chooses no tokens: leave sampling out.")
    if options.chat_template and not options.completes:
        raise BadRequest(f"task is {options.task}, which has no conversations: leave chat_template out.")
    if options.projector and not options.completes:
        raise BadRequest(f"projector has no effect with task {options.task}. Leave one of them out.")
    if options.drafts and not options.draft_model and options.drafting != head.MTP:
        raise BadRequest(f"speculation is {options.guesses_by}, which needs a draft_model; or say ngram.")
    for key in idle_with(options.speculation):
        if getattr(options, key) is not None:
            raise BadRequest(
                f"{key} has no effect, because speculation is {options.guesses_by}: say {OF_A_KIND[key]}, or leave "
                f"{key} out."
            )
    if "ngram" in options.speculation and options.ngram_max < options.ngram_lookup:
        raise BadRequest(
            f"ngram_max is {options.ngram_max} and ngram_lookup {options.ngram_lookup}: the server never guesses fewer "
            "tokens than it looks up, so it would guess none. Make ngram_max as large, or ngram_lookup smaller."
        )
    if options.drafting in head.KINDS and options.draft_placement != "shared":
        raise BadRequest(
            f"draft_placement {options.draft_placement} is for a draft model: a head reads what the model computes, "
            "and runs where that runs. Leave it out."
        )
    if options.draft_cpus and options.draft_placement == "shared":
        raise BadRequest(
            "draft_cpus has no effect with draft_placement shared, where the draft has all CPUs: say own_ccd or "
            "first_ccd."
        )
    worker_rules.check(options)
    if options.draft_placement == "own_ccd" and options.drafts and options.rpc_port in (None, options.port):
        raise BadRequest("draft_placement own_ccd runs a second server; set rpc_port to its port.")
    if options.lock and options.hugepages in ("pool", "hugetlbfs"):
        raise BadRequest(f"lock: hugepages {options.hugepages} are never swapped out, so leave lock out.")
    if options.memory in BY_THREAD and (options.hugepages != "none" or options.lock):
        raise BadRequest(
            f"memory {options.memory} has each part of the mapped file read on the node of its thread. With hugepages "
            "or lock something else reads it first: take interleave, or leave them out."
        )
    if options.direct_io and (options.memory in BY_THREAD or options.hugepages == "hugetlbfs" or options.lock):
        raise BadRequest(
            "direct_io reads the weights past the page cache into memory of the server's own: leave it out beside "
            "lock, hugepages hugetlbfs, and memory distribute or rows, which are about the file."
        )
    copied = options.hugepages == "hugetlbfs"
    if options.repack and (options.memory in BY_THREAD or copied):
        other = "hugepages hugetlbfs" if copied else f"memory {options.memory}"
        raise BadRequest(
            f"repack copies the weights into memory of the server's own, and {other} is about the file. Leave one of "
            "them out."
        )
