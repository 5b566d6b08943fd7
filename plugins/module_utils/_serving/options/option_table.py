# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance as a table, from which an inventory's dictionary is parsed and an argument spec is made.

Each engine has a subclass of ``OptionTable`` with its own ``fields``.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.numbers import parse_decimal, parse_whole_number
from ..._notation.suggestions import similar_or_known_words_message
from . import unit_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    Table = TypeVar("Table", bound="OptionTable")

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")
HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}\Z")
#: An address or a network, as systemd reads it.
CLIENT_PATTERN = re.compile(r"[0-9a-fA-F.:]+(?:/[0-9]{1,3})?\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
UPDATE_ORDERS = ("start_first", "stop_first")


class Field:
    """One option of an instance: its type by the name of the argument spec, its default, and its valid values."""

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


#: The options that the instances of all engines have, because the common code of units reads these options.
COMMON_FIELDS = {
    "name": Field("str", required=True),
    "alias": Field("str"),
    "host": Field("str", "127.0.0.1"),
    "port": Field("int", required=True, low=1024, high=65535),
    "api_key_file": Field("path"),
    "clients": Field("list", ()),
    "cpus": Field("str"),
    "user": Field("str"),
    "extra_arguments": Field("list", ()),
    "extra_environment": Field("dict", {}),
    "unit_settings": Field("dict", {}),
    "restart_seconds": Field("int", 5, low=0),
    "restart_limit": Field("int", 16, low=1),
    "restart_limit_seconds": Field("int", low=1),
    "start_timeout": Field("int", low=1),
    "drain_timeout": Field("int", 60, low=0),
    "stop_timeout": Field("int", 5, low=1),
    "watchdog": Field("int", low=5),
    "update_order": Field("str", UPDATE_ORDERS[0], UPDATE_ORDERS),
}
#: For each common option whose value has a form: the option, the pattern of the form, and the form in words.
FORMS = (
    ("name", NAME, "a name of small letters, digits, - and _, of 40 characters at most"),
    ("user", USER, "the name of a system user"),
    ("host", HOST, "an address or a host name"),
)


class OptionTable:
    """The options of one instance: an attribute for each of ``fields``, which is None where the option is not set.

    The class attributes are defaults for options that the common code reads but only some engines have.
    """

    __slots__ = ()

    fields: Mapping[str, Field] = COMMON_FIELDS
    #: By option, the function that parses its value, for options whose type alone does not define the valid values.
    value_parsers: Mapping[str, Callable[[object], Any]] = {"unit_settings": unit_settings.parse_unit_settings}
    #: The key of the engine in the catalogue.
    engine_key = ""
    adapters: Any = ()
    nodes: Any = None
    hugepages: Any = "none"
    hugetlbfs: Any = "/dev/hugepages"
    lock: Any = False
    models: Any = ()
    rpc_port: Any = None
    rpc_workers: Any = ()
    task: Any = "completion"
    workers: Any = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of an option; the types of the options are in ``fields``."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        for key in self.fields:
            setattr(self, key, values[key])

    def validate(self) -> None:
        """Raise BadRequest for invalid values, and for options that exclude each other on any host."""
        for key, pattern, form in FORMS:
            value = getattr(self, key)
            if value is not None and not pattern.match(value):
                raise BadRequest(f"{key} is '{value}'; say {form}.")
        for address in self.clients:
            if not CLIENT_PATTERN.match(address):
                raise BadRequest(
                    f"clients has '{address}': name addresses and networks, such as 10.20.0.9 or fd00::/64."
                )
        if self.clients and not CLIENT_PATTERN.match(self.host) and self.host not in LOOPBACK:
            raise BadRequest(f"host is '{self.host}': with clients, name an address, such as 10.20.0.1.")
        if self.user == "root":
            raise BadRequest("user is root; the server needs no such rights. Name a system user, or leave user out.")

    @classmethod
    def parse(cls: type[Table], raw: Mapping[str, Any]) -> Table:
        """Return the options of an inventory's dictionary; BadRequest, which names the option, for an invalid one."""
        if not isinstance(raw, dict):
            raise BadRequest(
                f"An instance is '{raw}'; it is a dictionary of {', '.join(cls._list_required_options())} and more."
            )
        for key in sorted(str(key) for key in set(raw) - set(cls.fields)):
            raise BadRequest(
                f"An instance has no option '{key}'; {similar_or_known_words_message(key, cls.fields, 'it takes')}"
            )
        values = {}
        for key, field in cls.fields.items():
            value = raw.get(key)
            if value is None and field.required:
                raise BadRequest(f"{key} is missing: an instance needs {', '.join(cls._list_required_options())}.")
            values[key] = field.default if value is None else cls._parse_value(key, field, value)
        options = cls(values)
        options.validate()
        return options

    @classmethod
    def argument_spec(cls) -> dict[str, dict[str, Any]]:
        """Return the argument spec of an instance. ``binary`` is optional there, since the module has a default."""
        table: dict[str, dict[str, Any]] = {}
        for key, field in cls.fields.items():
            row: dict[str, Any] = {"type": field.type}
            if field.required and key != "binary":
                row["required"] = True
            if field.choices:
                row["choices"] = list(field.choices)
            if field.type == "list":
                row["elements"] = "str"
            if field.default is not None:
                row["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
            # The value is no secret: it is the path of a file with keys.
            if key == "api_key_file":
                row["no_log"] = False
            table[key] = row
        return table

    @classmethod
    def _list_required_options(cls) -> list[str]:
        return [key for key, field in cls.fields.items() if field.required]

    @classmethod
    def _parse_value(cls, key: str, field: Field, value: object) -> Any:
        if key in cls.value_parsers:
            return cls.value_parsers[key](value)
        if field.type == "bool":
            if not isinstance(value, bool):
                raise BadRequest(f"{key} is '{value}'; say true or false.")
            return value
        if field.type in ("int", "float"):
            return _parse_number(key, field, value)
        if field.type == "list":
            if not isinstance(value, (list, tuple)) or isinstance(value, str):
                raise BadRequest(f"{key} must be a list of words, as ['--top-k', '20'], not '{value}'.")
            return tuple(_require_unit_file_text(key, str(word)) for word in value)
        if field.type == "dict":
            if not isinstance(value, dict):
                raise BadRequest(f"{key} must be a dictionary of names and values, not '{value}'.")
            return {
                _require_variable_name(key, name): _require_unit_file_text(key, str(text))
                for name, text in value.items()
            }
        if key in ("cpus", "draft_cpus") and isinstance(value, (list, tuple)):
            value = ",".join(str(word) for word in value)
        text = _require_unit_file_text(key, str(value))
        if not text:
            raise BadRequest(f"{key} is empty; leave it out where it shall not be set.")
        if field.choices and text not in field.choices:
            raise BadRequest(f"{key} is '{text}'; say one of {', '.join(field.choices)}.")
        if field.type == "path" and not text.startswith("/"):
            raise BadRequest(f"{key} is '{text}'; say the whole path, beginning with /.")
        return text


def _parse_number(key: str, field: Field, value: object) -> float:
    number = (parse_whole_number if field.type == "int" else parse_decimal)(value)
    low, high = field.low, field.high
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        limits = f"from {low} to {high}" if high is not None else f"from {low} up"
        raise BadRequest(f"{key} is '{value}'; say a {'whole ' if field.type == 'int' else ''}number {limits}.")
    return number


def _require_unit_file_text(key: str, text: str) -> str:
    """Return a text unchanged; BadRequest for a text that a line of a unit file cannot hold."""
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise BadRequest(f"{key} holds a control character in {text!r}; a unit file cannot carry it. Leave it out.")
    return text


def _require_variable_name(key: str, name: object) -> str:
    if not isinstance(name, str) or not VARIABLE.match(name):
        raise BadRequest(f"{key}: '{name}' is not a name of an environment variable.")
    return name
