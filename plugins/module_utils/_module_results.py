# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends modules of Ansible with a result or an error, in which all texts are escaped."""

from __future__ import annotations

from ._errors import shorten_words_and_sentence
from ._knobs.change_text import add_text_to_diff
from ._notation.printable import escape_lines_in_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ansible.module_utils.basic import AnsibleModule

    from ._errors import TuningError


def exit_module(module: AnsibleModule, result: Mapping[str, Any]) -> None:
    """End a module with its result, whose remarks become warnings too.

    All texts are escaped here, because they may quote a server, a file or a model, and Ansible prints them.
    """
    warn_of_remarks(module, result.get("remarks") or ())
    module.exit_json(**escape_lines_in_data(result))


def warn_of_remarks(module: AnsibleModule, remarks: Iterable[str]) -> None:
    """Have Ansible warn of each remark, escaped and cut in length."""
    for remark in remarks:
        module.warn(shorten_words_and_sentence(escape_lines_in_data(remark)))


def fail_module(module: AnsibleModule, error: TuningError, knob_files: Mapping[str, Any]) -> None:
    """End a module with the message of an error and its details, escaped like a result."""
    module.fail_json(**escape_lines_in_data({**add_text_to_diff(error.details, knob_files), "msg": str(error)}))
