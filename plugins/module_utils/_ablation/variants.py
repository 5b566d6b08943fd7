# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variants of an ablation: the instance with another program, engine, model or other options, to be compared.

All variants are planned before anything is stopped, with the headers and the memory of their own models. So a variant
that could not run is refused at once. The name of a variant says what differs, as "b11500" for another build.
"""

from __future__ import annotations

import os
import re

from .._bench.rounds import schedule
from .._errors import BadRequest, TuningError
from .._host.host import Host
from .candidates import Candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import MeasuredInstance
    from .._serving.plan.instance_plan import InstancePlan
    from .arm_switch import InstanceVariant

#: The key of the name in the request of a variant, and the longest name.
NAME, LONGEST_NAME = "name", 40
#: Options that no variant may change: the client asks the instance as it is, and expects the same answers.
FIXED_OPTIONS = ("alias", "api_key_file", "host", "models", "port", "rpc_workers", "slots", "task", "user")
PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w .,=+-]*")
#: The end of the name of a model in several files.
PART_OF_MODEL = re.compile(r"-\d{5}-of-\d{5}$")


class Variants:
    """The planned variants of a run: ``arms`` for its document, and ``by_arm`` has how each arm runs the instance."""

    def __init__(self) -> None:
        self.arms: list[dict[str, Any]] = []
        self.by_arm: dict[str, InstanceVariant] = {}


def plan_variants(
    host: Host,
    target: MeasuredInstance,
    requests: Sequence[Mapping[str, Any]],
    instance_options: Mapping[str, Any] | None,
    intent: Mapping[str, Any] | None,
) -> Variants:
    """Return the planned variants of an instance; BadRequest for a variant that cannot be planned.

    ``instance_options`` are the options of module llama_server with which the instance runs, and ``intent`` is the
    intent of the plan of the instance, None for the stored intent of the host.
    """
    variants = Variants()
    if not requests:
        return variants
    if not instance_options or instance_options.get("name") != target.name:
        raise BadRequest(
            f"arms: an arm with other options of {target.name} is planned from the options that it runs with: give "
            "them in instance_options, as playbooks/ablation.yml does."
        )
    planner = host if intent is None else Host(host.fs, dict(intent))
    candidates = Candidates(planner, instance_options, target)
    for request in requests:
        options = _parse_variant_options(request)
        label = str(request.get(NAME) or options.get("model") or options.get("binary") or next(iter(options)))
        try:
            variant, service = candidates.plan_variant(options, label)
        except TuningError as error:
            raise BadRequest(f"arms: {label} cannot be planned, and nothing was stopped: {error}") from None
        name = request.get(NAME) or _describe_variant(options, service, candidates)
        recorded = {key: str(value).lower() if isinstance(value, bool) else value for key, value in options.items()}
        arm = schedule.build_variant_arm(
            _make_variant_name_distinct(_replace_characters_invalid_in_arm_name(str(name)), variants), recorded
        )
        variants.arms.append(arm)
        variants.by_arm[arm["name"]] = variant
    return variants


def _parse_variant_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a variant; BadRequest for a variant without options, or with a fixed option."""
    options = {key: value for key, value in request.items() if key != NAME and value is not None}
    if not options:
        raise BadRequest("arms: each arm needs an option that differs, such as binary, engine or model.")
    for key, value in options.items():
        if key in FIXED_OPTIONS:
            raise BadRequest(f"arms: {key} cannot differ between arms, which all answer the same requests.")
        if isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value):
            options[key] = ",".join(value)
        elif not isinstance(value, (str, int, float)):
            raise BadRequest(f"arms: {key} is {value!r}, and an arm may have a text or a number there.")
    return options


def _describe_variant(options: Mapping[str, Any], service: InstancePlan, candidates: Candidates) -> str:
    """Return what differs in a variant, in a few words: the build or engine, the model, and other options.

    A program of the build that runs is named by its folder.
    """
    words: list[str] = []
    capabilities, running = (candidates.capabilities_of(each) for each in (service, candidates.service))
    if "binary" in options or "engine" in options:
        words += [capabilities.engine] if capabilities.engine != running.engine else []
        words += [f"b{capabilities.build}"] if capabilities.build and capabilities.build != running.build else []
        words = words or [_folder_of_program(capabilities.binary)]
    if "model" in options:
        words.append(PART_OF_MODEL.sub("", os.path.splitext(os.path.basename(options["model"]))[0]))
    words += [f"{key}={value}" for key, value in options.items() if key not in ("binary", "engine", "model")]
    return " ".join(words)


def _folder_of_program(path: str) -> str:
    """Return the folder that tells a build from others: the one of the program, or above a folder bin."""
    folder = os.path.dirname(path)
    return os.path.basename(os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder) or path


def _replace_characters_invalid_in_arm_name(name: str) -> str:
    """Return a name as plain characters, as the document of a run requires."""
    plain = "".join(char if PLAIN_NAME.fullmatch(f"a{char}") else "-" for char in name).strip(" -")
    return plain[:LONGEST_NAME].strip() or "other"


def _make_variant_name_distinct(name: str, variants: Variants) -> str:
    taken = {arm["name"][len(schedule.VARIANT) :] for arm in variants.arms}
    number = 2
    distinct = name
    while distinct in taken:
        distinct, number = f"{name} {number}", number + 1
    return distinct
