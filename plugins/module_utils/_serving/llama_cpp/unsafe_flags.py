# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags of llama-server that no option has, and that harm an instance or its clients when a user adds them.

Some flags are refused, because the server would not be the planned one, or would open the host to its clients. Other
flags have an effect that is easily overlooked, and get a remark. --help lists the other names of a flag, and the
environment variable that stands for the flag.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .capabilities import Capabilities

_OPENS_HOST = (
    "gives every client of the server programs, files or other servers in its name: its help says 'do not "
    "enable in untrusted environments'. Leave it out; start such a server by hand, for yourself."
)
_ENDS_SERVER = "has the server print something and end, in place of serving. Leave it out."
_FETCHES_MODEL = "has the server load another model than the planned one, from the internet. Use the option model."
_FETCHES_DRAFT = "has the server load a draft from the internet. Use the option draft_model."
_MOVES_DRAFT_THREADS = "moves threads of the draft to other CPUs than the planned ones. Use the option draft_cpus."
_INVENTS_ANSWERS = (
    "has the server accept guessed tokens by chance, for measurements: its answers are wrong. Leave it out."
)
_NO_PLAIN_HTTP = (
    "has the server speak TLS only, and the collection asks it by plain HTTP whether it serves. Leave it out, and have "
    "the gateway speak TLS to clients."
)
#: For each refused flag the rest of the sentence that refuses it.
REFUSED_FLAGS = {
    "--spec-default": "sets a kind of speculation in place of the planned one. Use the option speculation.",
    "--api-prefix": (
        "moves the paths at which the collection asks whether the server serves, so that its start would fail. Leave "
        "it out, and add the prefix in the program before the server."
    ),
    **dict.fromkeys(("--ssl-key-file", "--ssl-cert-file"), _NO_PLAIN_HTTP),
    **dict.fromkeys(("--tools", "--tools-runtime", "--agent", "--ui-mcp-proxy"), _OPENS_HOST),
    **dict.fromkeys(("--mcp-servers-config", "--mcp-servers-json"), _OPENS_HOST),
    **dict.fromkeys(("--spec-draft-hf", "--hf-repo-draft"), _FETCHES_DRAFT),
    **dict.fromkeys(("--spec-synth-len", "--spec-synth-rates"), _INVENTS_ANSWERS),
    **dict.fromkeys(
        ("--spec-draft-cpu-mask", "--spec-draft-cpu-range", "--spec-draft-cpu-mask-batch"), _MOVES_DRAFT_THREADS
    ),
    **dict.fromkeys(("--cpu-mask-draft", "--cpu-range-draft", "--cpu-mask-batch-draft"), _MOVES_DRAFT_THREADS),
    **dict.fromkeys(("--help", "--version", "--cache-list", "--list-devices", "--completion-bash"), _ENDS_SERVER),
}
#: Words in the help text of a flag that has the server fetch a model. Such flags have names of models.
FETCHES_TEXT = "can download weights from the internet"
#: For each flag with an effect that is easily overlooked, this effect.
REMARKED_FLAGS = {
    "--path": "everyone who can reach the server reads all files of this folder.",
    "--media-path": "each client can have the server read the files of this folder.",
    "--props": "each client can change settings of the server for all other clients.",
    "--log-prompts-dir": "the prompts of all clients are written to files.",
    "--sleep-idle-seconds": "an idle server drops its model, and the next client waits until it is read again.",
    **dict.fromkeys(
        ("--log-disable", "--log-file"),
        "the journal of the unit does not have the reason of a failed start, which runs of the collection quote.",
    ),
}
#: The beginnings of names that switch off what another name of the same flag switches on.
NEGATIONS = ("--no-", "-no-")
VARIABLE = re.compile(r"\(env: (\w+)\)")


def unsafe_flag_reason(flag: str, capabilities: Capabilities) -> str:
    """Return why a flag is refused, as the rest of a sentence that begins with the flag; "" where it is not."""
    if flag.startswith(NEGATIONS):
        return ""
    if FETCHES_TEXT in capabilities.flag_description(flag):
        return _FETCHES_MODEL
    return next((REFUSED_FLAGS[name] for name in capabilities.flag_names(flag) if name in REFUSED_FLAGS), "")


def unsafe_variable_reason(variable: str, capabilities: Capabilities) -> str:
    """Return why an environment variable is refused: it stands for a refused flag; "" where it is not."""
    flags = [flag for flag in REFUSED_FLAGS if variable in VARIABLE.findall(capabilities.flag_description(flag))]
    return REFUSED_FLAGS[flags[0]] if flags else ""


def list_flag_remarks(flags: Sequence[str], variables: Mapping[str, str], capabilities: Capabilities) -> list[str]:
    """Return remarks on flags in extra_arguments and variables in extra_environment with overlooked effects."""
    remarks = []
    for remarked, effect in REMARKED_FLAGS.items():
        names = capabilities.flag_names(remarked)
        remarks += [f"extra_arguments: with {flag}, {effect}" for flag in flags if flag in names]
        own = VARIABLE.findall(capabilities.flag_description(remarked))
        remarks += [f"extra_environment: with {variable}, {effect}" for variable in variables if variable in own]
    return remarks
