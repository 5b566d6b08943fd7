# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the module epyc_preflight asks of a host, out of the variables of the layers of a run.

What the controller itself can refuse of them is refused here: values that the argument spec of a role does not take,
and models that nobody has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS, Options
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _catalogue, _tuned
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import require_tables
from ansible_collections.sovereign.epyc.plugins.plugin_utils._known_variables import read_argument_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Layers that run only on hosts with this variable.
NEEDS = {"bios": "bios_bmc", "llama": "llama_instances"}
#: In place of a file that is named by a model which was refused.
REFUSED_MODEL = "/the/model/that/was/refused"
NOTHING_CHANGED = "Nothing was changed."


class Variables:
    """The variables of a host, each templated when it is asked for."""

    def __init__(self, values: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        self._values = values
        self._template = template

    def has(self, name: str) -> bool:
        """Return whether a variable is defined and has a value before the layers run."""
        return self.get(name, self) is not self

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable; the default where it has none yet."""
        if name not in self._values:
            return default
        try:
            return self._template(self._values[name])
        except AnsibleError:
            return default


class Question:
    """The options of the module for some layers, and the refusals that need no host."""

    def __init__(self, layers: Sequence[str], variables: Variables) -> None:
        self.layers = [layer for layer in layers if layer not in NEEDS or variables.has(NEEDS[layer])]
        self.variables = variables
        self.refusals: list[str] = []
        self.options: dict[str, Any] = {"layers": self.layers}
        for layer in self.layers:
            self._refuse_invalid_arguments(layer)
        for layer, ask in (
            ("prerequisites", self._ask_system),
            ("grub_params", self._ask_boot_parameters),
            ("prefetch", self._ask_prefetch),
            ("numa", self._ask_numa),
            ("llama", self._ask_llama),
        ):
            if layer in self.layers:
                try:
                    ask()
                except BadRequest as error:
                    self.refusals.append(str(error))

    def _refuse_invalid_arguments(self, layer: str) -> None:
        """Refuse what Ansible would refuse when it comes to the role. A secret is not looked at."""
        options = read_argument_specs(layer).get("main", {}).get("options", {})
        given = {
            name: self.variables.get(name)
            for name, option in options.items()
            if not option.get("no_log") and self.variables.has(name)
        }
        known = {name: option for name, option in options.items() if name in given}
        found = ArgumentSpecValidator(known).validate(given)
        self.refusals += [f"Variables of the layer {layer}: {message.rstrip('.')}." for message in found.error_messages]

    def _ask_system(self) -> None:
        self.options["system"] = {
            "distributions": self.variables.get("__prerequisites_distributions", {}),
            "kernel": self.variables.get("__prerequisites_kernel", ""),
            "allow_unsupported": self._is_true("prerequisites_allow_unsupported"),
        }

    def _ask_boot_parameters(self) -> None:
        parameters, absent = (self.variables.get(f"__grub_params_{name}") for name in ("wanted", "unwanted"))
        # Without a plan there are no CPUs for them.
        if parameters is not None and absent is not None:
            self.options["boot_parameters"] = {"parameters": parameters, "absent": absent}

    def _ask_prefetch(self) -> None:
        self.options["prefetch"] = self.variables.get("__prefetch_settings", [])

    def _ask_numa(self) -> None:
        self.options["pools"] = bool(self.variables.get("numa_hugepages"))
        if self.variables.has("numa_smt"):
            self.options["smt"] = str(self.variables.get("numa_smt"))

    def _ask_llama(self) -> None:
        get = self.variables.get
        install = get("llama_install", "binary")
        self.options.update(
            instances=self._place_instances(self._ask_models()),
            binary=None if install == "source" else get("llama_binary"),
            binary_checksum=get("llama_checksum"),
            installs=install != "binary",
            purge=self._is_true("llama_purge"),
        )
        self.options["made"] = [
            REFUSED_MODEL,
            *(one["path"] for one in get("llama_quantized", []) if isinstance(one, dict) and one.get("path")),
        ]

    def _ask_models(self) -> list[dict[str, Any]] | None:
        """Return the files of models that are fetched or must be there; None where they were refused."""
        get = self.variables.get
        try:
            files = _catalogue.model_files(
                get("llama_models", []),
                get("llama_catalogue", {}),
                str(get("llama_hub_endpoint", "")),
                str(get("llama_model_folder", "")),
            )
        except BadRequest as error:
            self.refusals.append(str(error))
            return None
        self.options["fetched"] = [{"path": one["path"], "checksum": one["checksum"]} for one in files if one["url"]]
        self.options["present"] = [one["path"] for one in files if not one["url"]]
        self._ask_sources(files)
        return files

    def _ask_sources(self, files: Sequence[Mapping[str, Any]]) -> None:
        """Ask whether the server and the models can be had. A token stays here; the host gets to know of it only."""
        get = self.variables.get
        install = get("llama_install", "binary")
        packages = {"package": [get("llama_package")], "source": get("llama_build_packages", [])}
        self.options["sources"] = {
            "install": install,
            "packages": [name for name in packages.get(install, []) if name],
            "archive": get("llama_source_archive"),
            "checksum": get("llama_source_checksum"),
            "models": [{key: one[key] for key in ("path", "url", "checksum", "size", "hub")} for one in files],
            "hub_needs_token": bool(get("llama_hub_token")),
        }

    def _place_instances(self, files: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """Return the instances as the role places them, with the types that the module llama_server gives them."""
        own = self.variables.get("llama_catalogue", {})
        placed = []
        for raw in require_tables(self.variables.get("llama_instances"), "llama_instances", "instances"):
            try:
                (one,) = _catalogue.with_models([raw], files or [], own)
                (one,) = _tuned.with_tuned([one], self.variables.get("llama_tuned", {}))
            except BadRequest as error:
                if files is not None:
                    self.refusals.append(str(error))
                named = {key: REFUSED_MODEL for key in ("model", "draft_model") if raw.get(key)}
                one = {**raw, **named, **({"models": {"refused": REFUSED_MODEL}} if raw.get("models") else {})}
            placed.append(self._give_types(one))
        return placed

    def _give_types(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return an instance with values in the types of its options; what cannot be given one stays as it is."""
        known = {key: value for key, value in one.items() if key in FIELDS}
        found = ArgumentSpecValidator(Options.argument_spec()).validate(known)
        if not found.error_messages:
            return {**one, **found.validated_parameters}
        try:
            Options.parse({"binary": REFUSED_MODEL, **one})
        except BadRequest:
            # The host says so, in words of ours.
            return one
        self.refusals += [f"Instance {one.get('name')}: {message.rstrip('.')}." for message in found.error_messages]
        return one

    def _is_true(self, name: str) -> bool:
        return bool(boolean(self.variables.get(name, False), strict=False))


def join_refusals(refusals: Sequence[str]) -> str:
    """Return the message of a task that fails with these: one a line, and that nothing was changed."""
    sentences = [sentence.replace(f" {NOTHING_CHANGED}", "").strip() for sentence in dict.fromkeys(refusals)]
    return " ".join([*sentences, NOTHING_CHANGED]) if len(sentences) == 1 else "\n".join([*sentences, NOTHING_CHANGED])
