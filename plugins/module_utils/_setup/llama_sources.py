# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks, before any change, whether a host can get the server and the models of llama.cpp.

The checks write nothing and fetch no package list.
Source: apt-cache(8), apt.conf(5) on Dir::Cache.
"""

from __future__ import annotations

import os
import re

from .._errors import Absent
from .._io import command
from .._models.fetch import fetch_impossible_reason
from .prerequisites import list_missing_packages, read_distribution_and_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .prerequisites import System

#: Without these options, apt-cache writes its cache when root runs it.
APT_POLICY = ("apt-cache", "--option=Dir::Cache::pkgcache=", "--option=Dir::Cache::srcpkgcache=", "policy")
CANDIDATE = re.compile(r"^ +Candidate: (?!\(none\))", re.MULTILINE)
#: A line of 'apt-cache policy' with the priority of a package list. The line of installed packages names dpkg instead.
PACKAGE_LIST = re.compile(r"^ *-?\d+ (?!/var/lib/dpkg/)", re.MULTILINE)
#: The time in seconds for which the server of a model may send nothing.
TIMEOUT = 20


def find_unavailable_llama_sources(sources: Mapping[str, Any], fs: KernelFS, store: Store) -> list[str]:
    """Return a message for each package, source and model that the role epyc_llama cannot get on this host.

    ``sources`` is the option sources of the module epyc_preflight. Models without a URL are not checked.
    """
    system = read_distribution_and_kernel(fs)
    unavailable = list_unavailable_debian_packages(sources["packages"], system)
    refusals = [_unavailable_package_message(name, sources["install"], system) for name in unavailable]
    if sources["install"] == "source":
        refusals += _source_archive_messages(sources)
    for number, model in enumerate(sources["models"]):
        refusal = (
            fetch_impossible_reason(_model_file_options_for_check(model, sources), store) if model["url"] else None
        )
        if refusal:
            refusals.append(_add_inventory_variable_to_message(f"epyc_llama_models[{number}]", model["path"], refusal))
    return refusals


def list_unavailable_debian_packages(packages: Sequence[str], system: System) -> list[str]:
    """Return the packages that are neither installed nor in the package lists of a host with Debian or Ubuntu.

    The result is empty on other distributions, and on a host without package lists.
    """
    if not system.is_debian:
        return []
    try:
        absent = [name for name in list_missing_packages(packages, is_debian=True) if not _is_in_package_lists(name)]
        return absent if absent and PACKAGE_LIST.search(command.try_command(APT_POLICY).out) else []
    except Absent:
        return []


def _is_in_package_lists(package: str) -> bool:
    return bool(CANDIDATE.search(command.try_command([*APT_POLICY, package]).out))


def _unavailable_package_message(package: str, install: str, system: System) -> str:
    start = f"There is no package {package} in the package sources of {system.distribution} {system.version}"
    if install == "package":
        hint = "Set epyc_llama_install to source or binary, or epyc_llama_package to the package that has the server."
        return f"{start}. {hint}"
    return f"{start}, and epyc_llama_build_packages names it. Name the package that has the tool, or install the tool."


def _source_archive_messages(sources: Mapping[str, Any]) -> list[str]:
    refusals = [
        f"epyc_llama_install is source, and epyc_llama_source_{name} is not set. Set it to {what}."
        for name, what in (
            ("archive", "the URL of an archive of llama.cpp, or its path on the host"),
            ("checksum", "the checksum of that archive, as sha256:HEX"),
        )
        if not sources[name]
    ]
    archive = str(sources["archive"] or "")
    if archive.startswith("/") and not os.path.isfile(archive):
        refusals.append(
            f"There is no file {archive} on the host (epyc_llama_source_archive). Copy it there, or give a URL."
        )
    return refusals


def _model_file_options_for_check(model: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of model_file for a check; "-" stands for a token file, which only the controller has."""
    token_file = "-" if sources["hub_needs_token"] and model["hub"] else None
    options = {key: model[key] for key in ("path", "url", "checksum", "size")}
    return {**options, "timeout": TIMEOUT, "token_file": token_file}


def _add_inventory_variable_to_message(place: str, path: str, refusal: str) -> str:
    """Return a message of model_file after its place in the inventory; the model's path is added if it is missing."""
    option, colon, rest = refusal.partition(": ")
    if colon and option in ("checksum", "path", "size", "url"):
        return f"{place}.{option}: {rest}" if path in rest else f"{place}.{option}, of {path}: {rest}"
    return f"{place}: {refusal}"
