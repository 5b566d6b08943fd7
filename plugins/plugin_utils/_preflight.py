# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the options of the module epyc_preflight from the variables of the layers of a run.

The controller itself refuses values that the argument spec of a role forbids, and models that no catalogue has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS, Options
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue, _tuned_options
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.known_variables import read_argument_specs
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import require_tables
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kept_files import lost_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Layer -> the variable without which the layer is left out of a run on a host.
REQUIRED_VARIABLES = {"bios": "epyc_bios_bmc", "llama": "epyc_llama_instances"}
#: The path in place of a refused model, with which the other options of its instance can still be checked.
REFUSED_MODEL = "/the/model/that/was/refused"
NOTHING_CHANGED = "Nothing was changed."


class Variables:
    """The variables of a host, each templated when it is read."""

    def __init__(self, values: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        self._values = values
        self._template = template

    def can_be_read(self, name: str) -> bool:
        """Return True if a variable is defined and can be templated before the layers run."""
        return self.get(name, self) is not self

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable, or the default where it is undefined or cannot be templated yet."""
        if name not in self._values:
            return default
        try:
            return self._template(self._values[name])
        except AnsibleError:
            return default


class Preflight:
    """The options of the module epyc_preflight for some layers, and the refusals that the controller found."""

    def __init__(self, layers: Sequence[str], variables: Variables) -> None:
        self.layers = [
            layer
            for layer in layers
            if layer not in REQUIRED_VARIABLES or variables.can_be_read(REQUIRED_VARIABLES[layer])
        ]
        self.variables = variables
        self.refusals: list[str] = []
        self.options: dict[str, Any] = {"layers": self.layers}
        for layer in self.layers:
            self._refuse_invalid_role_variables(layer)
        for layer, add_options in (
            ("prerequisites", self._add_system_requirement_options),
            ("bios", self._refuse_to_lose_bios_originals),
            ("grub_params", self._add_boot_parameter_options),
            ("prefetch", self._add_prefetch_options),
            ("numa", self._add_numa_options),
            ("llama", self._add_llama_options),
        ):
            if layer in self.layers:
                try:
                    add_options()
                except BadRequest as error:
                    self.refusals.append(str(error))

    def _refuse_invalid_role_variables(self, layer: str) -> None:
        """Refuse values that Ansible would refuse when the role starts. Secrets are not checked."""
        options = read_argument_specs(layer).get("main", {}).get("options", {})
        values = {
            name: self.variables.get(name)
            for name, option in options.items()
            if not option.get("no_log") and self.variables.can_be_read(name)
        }
        known = {name: option for name, option in options.items() if name in values}
        validation = ArgumentSpecValidator(known).validate(values)
        self.refusals += [
            f"Variables of the layer {layer}: {message.rstrip('.')}." for message in validation.error_messages
        ]

    def _add_system_requirement_options(self) -> None:
        self.options["system"] = {
            "distributions": self.variables.get("__epyc_prerequisites_distributions", {}),
            "kernel": self.variables.get("__epyc_prerequisites_kernel", ""),
            "allow_unsupported": self._is_variable_true("epyc_prerequisites_allow_unsupported"),
        }

    def _refuse_to_lose_bios_originals(self) -> None:
        originals = self.variables.get("epyc_bios_originals")
        if originals and self.variables.get("epyc_bios_state") == "present":
            refusal = lost_files.lost_file_refusal(str(originals), "epyc_bios_originals", os.environ)
            self.refusals += [refusal] if refusal else []

    def _add_boot_parameter_options(self) -> None:
        parameters, absent = (self.variables.get(f"__epyc_grub_params_{name}") for name in ("wanted", "unwanted"))
        # Without a plan, no CPUs are known for these parameters.
        if parameters is not None and absent is not None:
            self.options["boot_parameters"] = {"parameters": parameters, "absent": absent}

    def _add_prefetch_options(self) -> None:
        self.options["prefetch"] = self.variables.get("__epyc_prefetch_settings", [])

    def _add_numa_options(self) -> None:
        self.options["pools"] = bool(self.variables.get("epyc_numa_hugepages"))
        if self.variables.can_be_read("epyc_numa_smt"):
            self.options["smt"] = str(self.variables.get("epyc_numa_smt"))

    def _add_llama_options(self) -> None:
        get = self.variables.get
        install = get("epyc_llama_install", "binary")
        self.options.update(
            instances=self._build_llama_server_instances(self._add_model_file_options()),
            binary=None if install == "source" else get("epyc_llama_binary"),
            binary_checksum=get("epyc_llama_checksum"),
            installs=install != "binary",
            purge=self._is_variable_true("epyc_llama_purge"),
        )
        self.options["made"] = [
            REFUSED_MODEL,
            *(
                model["path"]
                for model in get("epyc_llama_quantized", [])
                if isinstance(model, dict) and model.get("path")
            ),
        ]

    def _add_model_file_options(self) -> list[dict[str, Any]] | None:
        """Add the model files to fetch and the files that must be present; return all, or None after a refusal."""
        get = self.variables.get
        try:
            files = _model_catalogue.resolve_models(
                get("epyc_llama_models", []),
                get("epyc_llama_catalogue", {}),
                str(get("epyc_llama_hub_endpoint", "")),
                str(get("epyc_llama_model_folder", "")),
            )
        except BadRequest as error:
            self.refusals.append(str(error))
            return None
        self.options["fetched"] = [
            {"path": file["path"], "checksum": file["checksum"]} for file in files if file["url"]
        ]
        self.options["present"] = [file["path"] for file in files if not file["url"]]
        self._add_download_source_options(files)
        return files

    def _add_download_source_options(self, files: Sequence[Mapping[str, Any]]) -> None:
        """Add the sources of the server and the models. The host learns whether there is a token, but not the token."""
        get = self.variables.get
        install = get("epyc_llama_install", "binary")
        packages = {"package": [get("epyc_llama_package")], "source": get("epyc_llama_build_packages", [])}
        self.options["sources"] = {
            "install": install,
            "packages": [name for name in packages.get(install, []) if name],
            "archive": get("epyc_llama_source_archive"),
            "checksum": get("epyc_llama_source_checksum"),
            "models": [{key: file[key] for key in ("path", "url", "checksum", "size", "hub")} for file in files],
            "hub_needs_token": bool(get("epyc_llama_hub_token")),
        }

    def _build_llama_server_instances(self, files: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """Return the instances as the role passes them to the module llama_server."""
        user_entries = self.variables.get("epyc_llama_catalogue", {})
        placed = []
        for options in require_tables(self.variables.get("epyc_llama_instances"), "epyc_llama_instances", "instances"):
            try:
                (instance,) = _model_catalogue.insert_model_paths([options], files or [], user_entries)
                (instance,) = _tuned_options.apply_tuned_options([instance], self.variables.get("epyc_llama_tuned", {}))
            except BadRequest as error:
                if files is not None:
                    self.refusals.append(str(error))
                named = {key: REFUSED_MODEL for key in ("model", "draft_model") if options.get(key)}
                router = {"models": {"refused": REFUSED_MODEL}} if options.get("models") else {}
                instance = {**options, **named, **router}
            placed.append(self._convert_option_types(instance))
        return placed

    def _convert_option_types(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Return an instance with its values converted to the types of the options, where that is possible."""
        known = {key: value for key, value in instance.items() if key in FIELDS}
        validation = ArgumentSpecValidator(Options.argument_spec()).validate(known)
        if not validation.error_messages:
            return {**instance, **validation.validated_parameters}
        try:
            Options.parse({"binary": REFUSED_MODEL, **instance})
        except BadRequest:
            # The module llama_server refuses this instance on the host, with a better sentence.
            return instance
        self.refusals += [
            f"Instance {instance.get('name')}: {message.rstrip('.')}." for message in validation.error_messages
        ]
        return instance

    def _is_variable_true(self, name: str) -> bool:
        return bool(boolean(self.variables.get(name, False), strict=False))


def format_refusals_message(refusals: Sequence[str]) -> str:
    """Return the message of a task that fails with refusals: a line for each, and the line that nothing was changed."""
    sentences = [sentence.replace(f" {NOTHING_CHANGED}", "").strip() for sentence in dict.fromkeys(refusals)]
    return " ".join([*sentences, NOTHING_CHANGED]) if len(sentences) == 1 else "\n".join([*sentences, NOTHING_CHANGED])
