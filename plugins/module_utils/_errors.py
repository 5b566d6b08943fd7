# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of the engine: why a setting was not made, each with a sentence that a person can act on.

The module that runs on Ansible turns any of them into a failed task with the sentence as its message.
"""

from __future__ import annotations

#: What a sentence repeats of a request can be a whole pasted file. More characters than these nobody reads.
LONGEST_WORD, LONGEST_SENTENCE = 200, 4000
ELLIPSIS = "..."


def shorten_sentence(sentence: str) -> str:
    """Return a sentence whose long words, and which itself, are cut in the middle: both ends say what it is about."""
    if len(sentence) > LONGEST_WORD:
        sentence = " ".join(_cut_middle(word, LONGEST_WORD) for word in sentence.split(" "))
    return _cut_middle(sentence, LONGEST_SENTENCE)


def _cut_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = (longest - len(ELLIPSIS)) // 2
    return f"{text[:kept]}{ELLIPSIS}{text[-kept:]}"


class TuningError(Exception):
    """Anything that stops a run. What its sentence repeats is shortened.

    ``details`` holds the same facts as the sentence, for programs: address, wanted, found, errno, file.
    """

    def __init__(self, sentence: str, **details: object) -> None:
        super().__init__(sentence)
        self.details = details

    def __str__(self) -> str:
        return shorten_sentence(super().__str__())


class Damaged(TuningError):
    """A file of ours holds what we cannot have written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}.", file=path)
        self.path = path
        self.reason = reason


class BadRequest(TuningError):
    """This host cannot do what was requested; raised before anything is written."""


class Unsupported(BadRequest):
    """The hardware or the kernel of this host has no such thing, whatever is requested of it."""


class Absent(TuningError):
    """The kernel file is not there: no such hardware, module, mount or kernel option."""


class Refused(TuningError):
    """The kernel refused a read or a write."""

    def __init__(self, sentence: str, errno: int, path: str) -> None:
        super().__init__(sentence, errno=errno, file=path)
        self.errno = errno
        self.path = path


class NotApplied(TuningError):
    """A write succeeded, but reading back shows another value."""


class Unrestored(TuningError):
    """A run failed, and putting back its changes failed too: the host is between two states."""
