# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception type that users see."""

from __future__ import annotations


class VepycError(Exception):
    """Something the user can act on; the text is one sentence that says what happened and what to do."""


class GuestError(VepycError):
    """A command inside the guest failed; the text holds the command, its exit code and what it printed."""
