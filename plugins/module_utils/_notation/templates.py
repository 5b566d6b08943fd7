# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detects texts that Ansible would evaluate as a template in a file of variables.

Source: the delimiters of Jinja, which Ansible does not change for variables.
"""

from __future__ import annotations

import re

BEGIN = re.compile(r"\{[{%#]")


def has_template(text: str) -> bool:
    """Return whether a text contains the beginning of a Jinja expression, statement or comment."""
    return BEGIN.search(text) is not None
