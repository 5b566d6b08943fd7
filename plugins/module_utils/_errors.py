# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of the collection, each with a message that a person can act on.

_ansible.py turns them into a failed task with that message.
"""

from __future__ import annotations

import os

#: The most characters of a word and of a message; a message may quote an option that holds a whole pasted file.
LONGEST_WORD, LONGEST_SENTENCE = 200, 4000
ELLIPSIS = "..."


def shorten_words_and_sentence(sentence: str) -> str:
    """Cut long words of a message, and a long message itself, in the middle, so that both ends remain."""
    if len(sentence) > LONGEST_WORD:
        sentence = " ".join(_cut_out_middle(word, LONGEST_WORD) for word in sentence.split(" "))
    return _cut_out_middle(sentence, LONGEST_SENTENCE)


def missing_rights_advice(error: OSError) -> str:
    """Return what to do, with a space before it, where the kernel refused a user that is not root; otherwise ""."""
    if isinstance(error, PermissionError) and os.geteuid():
        return " Run this as root, in Ansible with become: true."
    return ""


def _cut_out_middle(text: str, max_length: int) -> str:
    if len(text) <= max_length:
        return text
    length = (max_length - len(ELLIPSIS)) // 2
    return f"{text[:length]}{ELLIPSIS}{text[-length:]}"


class TuningError(Exception):
    """Base of all errors that stop a run; long messages are shortened.

    ``details`` has the facts of the message for programs: address, wanted, found, errno, file.
    """

    def __init__(self, sentence: str, **details: object) -> None:
        super().__init__(sentence)
        self.details = details

    def __str__(self) -> str:
        return shorten_words_and_sentence(super().__str__())


class Damaged(TuningError):
    """A file of the collection has contents that the collection cannot have written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}.", file=path)
        self.path = path
        self.reason = reason


class NewerFormat(TuningError):
    """A file was written by a newer version of the collection, and this version cannot read it; see _formats.py."""


class BadRequest(TuningError):
    """The request is impossible on this host; raised before anything is written."""


class Unsupported(BadRequest):
    """The hardware or the kernel of this host does not have the requested feature at all."""


class Absent(TuningError):
    """A file of the kernel, or a program, does not exist on this host."""


class Refused(TuningError):
    """The kernel refused a read or a write."""

    def __init__(self, sentence: str, errno: int, path: str) -> None:
        super().__init__(sentence, errno=errno, file=path)
        self.errno = errno
        self.path = path


class NotApplied(TuningError):
    """A write succeeded, but the read-back shows another value."""


class Unrestored(TuningError):
    """A run failed, and restoring its changes failed too: the host is between two states."""
