# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refusals of the library as errors of a filter, which Ansible shows without a traceback."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What filters of run documents say of other data.
NO_RUN_DOCUMENT = "This cannot be used as the document of a run: {}."


@contextmanager
def refusals_as_filter_errors(template: str = "{}") -> Iterator[None]:
    """Raise AnsibleFilterError in place of BadRequest, with its sentence escaped, because it may quote a document.

    ``template`` has {} for the sentence of the refusal.
    """
    try:
        yield
    except BadRequest as error:
        raise AnsibleFilterError(escape_lines(template.format(error))) from None
