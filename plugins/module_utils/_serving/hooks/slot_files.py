# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Saves the prompts in the slots of a server before it stops, and restores them when the server serves again.

A slot file has the tokens of one slot and their KV cache. llama-server itself verifies only the shape of such a file:
changed bytes, or the file of another model of the same shape, would silently become a wrong KV cache. So each slot file
has a note with its checksum and with the files and options of the server that wrote it. At each start all slot files
are removed, also those that are not restored: a file that makes the server crash is read only once, and a server that
was killed starts without prompts. Source: SERVER_TASK_TYPE_SLOT_SAVE in tools/server/server-context.cpp, and
llama_context::state_seq_load_file in src/llama-context.cpp of llama.cpp, build 11434.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from contextlib import contextmanager, suppress

from ..._errors import TuningError
from ..._io.foreign_json import parse_json
from ..._io.safe_open import open_folder
from ..._kernel.processes import read_process_start_time
from ..._notation.numbers import parse_whole_number
from ..._notation.sizes import format_bytes_short
from . import json_request, server_http

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..._io.safe_open import OpenFolder

    #: A document in the folder of slot files.
    Note = dict[str, Any]

#: A slot file, its note, and a file that is being written or restored. A file of the last kind is never restored.
SLOT_FILE, NOTE, UNFINISHED = "slot-{}.kv", "slot-{}.json", "slot-{}.part"
ANY_SLOT_FILE = re.compile(r"slot-[0-9]+\.(?:kv|json|part)\Z")
ANY_NOTE = re.compile(r"slot-[0-9]+\.json\Z")
#: The note on what the running server has loaded. It is written at the start, because files can be replaced later.
RUNNING_SERVER = "server.json"
#: The key of its process ID in that note.
PROCESS = "process"
#: The form of the notes. A note of another form is not used.
FORM = 1
NOTE_NUMBERS = ("size", "checksum", "tokens", "slot")
CHUNK, LARGEST_NOTE = 1 << 20, 1 << 20
#: Bytes that stay free on the disk for other programs.
ROOM_FOR_OTHERS = 1 << 30
#: Seconds within which a server lists its slots, which it does between two batches.
LIST_SECONDS = 20.0


class Slot:
    """A slot as the server describes it; ``tokens`` is None where the server does not say how many it has.

    ``last_task`` is the number of its last request, -1 for a slot without one, whose prompt may have been restored.
    """

    __slots__ = ("context", "is_processing", "last_task", "number", "tokens")

    def __init__(self, row: Any) -> None:
        """ValueError for a row that describes no slot."""
        number = parse_whole_number(row.get("id")) if isinstance(row, dict) else None
        if number is None:
            raise ValueError("a slot has no number")
        self.number = number
        self.context = parse_whole_number(row.get("n_ctx")) or 0
        self.tokens = parse_whole_number(row.get("n_prompt_tokens"))
        self.is_processing = bool(row.get("is_processing"))
        task = parse_whole_number(row.get("id_task"))
        self.last_task = -1 if task is None else task


class Server:
    """A running server, and the time that a hook may take."""

    def __init__(self, url: str, key: str | None, timeout: float, clock: Any = time) -> None:
        self.url = url
        self.key = key
        self.clock = clock
        self.end = clock.monotonic() + timeout

    def seconds_left(self) -> float:
        return float(max(0.0, self.end - self.clock.monotonic()))

    def list_slots(self) -> list[Slot]:
        """Return the slots in the order of their numbers; TuningError where the server does not list them."""
        limit = min(self.seconds_left(), LIST_SECONDS)
        status, text = server_http.send_get_request(self.url, "/slots", limit, self.key, is_hook=True)
        if status != 200:
            raise TuningError(f"{self.url}/slots: {text if status is None else status}.")
        with suppress(ValueError, TypeError):
            return sorted((Slot(row) for row in parse_json(text)), key=lambda slot: slot.number)
        raise TuningError(f"{self.url}/slots does not list slots.")

    def save_or_restore(self, action: str, slot: int, file: str) -> Note:
        """Have the server ``save`` or ``restore`` a slot, and return its answer; TuningError with its reason."""
        path = f"/slots/{slot}?action={action}"
        answer = json_request.post_json(self.url, path, {"filename": file}, self.end, self.key, self.clock)
        if not isinstance(answer, dict):
            raise TuningError(f"{path} has no answer that can be read.")
        return answer


def save_slots(
    server: Server,
    path: str,
    limit: int,
    slot_bytes: tuple[int, int],
    process: int | None,
    report: Callable[[str], None],
) -> str:
    """Save the prompt of each slot to a folder, the last used slot first, and return a sentence with the result.

    The files take at most ``limit`` bytes. ``slot_bytes`` are the bytes of any slot, and the bytes of each token.
    ``process`` is the process ID of the server.
    """
    saved: list[Note] = []
    begin = server.clock.monotonic()
    with _open_folder_as_its_owner(path) as folder:
        _remove_slot_files(folder)
        loaded = _read_note(folder, RUNNING_SERVER)
        # A hook that was killed at the start of this server has left the note of the server before.
        if loaded is None or loaded.pop(PROCESS, None) != process:
            return "No prompt is saved, because it is not known which files the server has loaded."
        try:
            slots = sorted(server.list_slots(), key=lambda slot: slot.last_task, reverse=True)
        except TuningError as error:
            return f"No prompt is saved: {error}"
        for slot in slots:
            room = limit - sum(note["size"] for note in saved)
            try:
                seconds = server.clock.monotonic() - begin
                _require_slot_can_be_saved(server, folder, slot, room, slot_bytes, saved, seconds)
                note = _save_slot(server, folder, slot, room, loaded)
            except (TuningError, OSError) as error:
                report(f"Slot {slot.number} is not saved: {error}")
                continue
            saved += [note] if note else []
    if not any(slot.is_processing for slot in slots):
        # The server was idle. Clients may have sent requests while it saved, and the next signal would cut them off.
        with suppress(TuningError):
            server_http.wait_until_idle(server.url, server.seconds_left(), server.key, server.clock)
    return _format_count_size_and_time_of_prompts(server, saved, begin, f"saved in {path}")


def _require_slot_can_be_saved(
    server: Server,
    folder: OpenFolder,
    slot: Slot,
    room: int,
    slot_bytes: tuple[int, int],
    saved: Sequence[Note],
    seconds: float,
) -> None:
    """Raise TuningError for a slot that is busy, or whose file would be too large or would take too long."""
    if slot.is_processing:
        raise TuningError("it works on a request.")
    fixed, each = slot_bytes
    # A server does not say how many tokens a slot has that was restored and not used since.
    size = min(room, fixed + each * slot.context) if slot.tokens is None else fixed + each * slot.tokens
    if size > room:
        raise TuningError(
            f"its {slot.tokens} tokens take about {format_bytes_short(size)}, and slot_files has room for "
            f"{format_bytes_short(room)} more."
        )
    disk = os.fstatvfs(folder.descriptor)
    free = disk.f_bavail * disk.f_frsize - ROOM_FOR_OTHERS
    if size > free:
        raise TuningError(
            f"it takes about {format_bytes_short(size)}, and the disk of {folder.path} has room for "
            f"{format_bytes_short(max(0, free))}; {format_bytes_short(ROOM_FOR_OTHERS)} stay free."
        )
    written = sum(note["size"] for note in saved)
    needed = size * seconds / written if written else 0.0
    if needed >= server.seconds_left():
        raise TuningError(f"it would take about {needed:.0f} s, and {server.seconds_left():.0f} s are left.")


def _save_slot(server: Server, folder: OpenFolder, slot: Slot, room: int, loaded: Note) -> Note | None:
    """Have the server save a slot, and return the note of the file; None for an empty slot."""
    number = slot.number
    temporary = UNFINISHED.format(number)
    try:
        answer = server.save_or_restore("save", number, temporary)
        tokens = parse_whole_number(answer.get("n_saved"))
        if not tokens:
            return None
        size, checksum = _compute_size_and_checksum(folder, temporary)
        if size > room:
            raise TuningError(
                f"its file takes {format_bytes_short(size)}, and slot_files has room for {format_bytes_short(room)} "
                "more."
            )
        note = {
            **{"form": FORM, "server": loaded, "size": size, "checksum": checksum, "tokens": tokens},
            **{"slot": number, "order": slot.last_task},
        }
        # A crash between these two steps leaves a slot file without a note, which is not restored.
        folder.rename_file(temporary, SLOT_FILE.format(number))
        _write_note(folder, NOTE.format(number), note)
    finally:
        # A server that was too slow may still write to the file, whose room is free when the server ends.
        with suppress(FileNotFoundError):
            folder.remove_file(temporary)
    return note


def restore_slots(
    fs: KernelFS,
    server: Server,
    path: str,
    options_digest: str,
    files: Sequence[str],
    process: int | None,
    report: Callable[[str], None],
) -> str:
    """Restore the saved prompts that fit to the server, the last used first; return a sentence with the result.

    ``files`` are the files that the server has loaded, and ``process`` is its process ID. A prompt that does not fit is
    reported. All slot files are removed.
    """
    restored: list[Note] = []
    begin = server.clock.monotonic()
    loaded, reason = _read_loaded_files(fs, options_digest, files, process)
    with _open_folder_as_its_owner(path) as folder:
        try:
            with suppress(FileNotFoundError):
                folder.remove_file(RUNNING_SERVER)
            if reason:
                return f"No prompt is restored, and none will be saved: {reason}"
            _write_note(folder, RUNNING_SERVER, {**loaded, PROCESS: process})
            notes = _list_notes(folder)
            try:
                slots = {slot.number: slot for slot in server.list_slots()} if notes else {}
            except TuningError as error:
                return f"No prompt is restored: {error}"
            for number, note in notes:
                try:
                    restored.append(_restore_slot(server, folder, number, note, loaded, slots))
                except (TuningError, OSError) as error:
                    report(f"The saved prompt of slot {number} is left out: {error}")
        finally:
            _remove_slot_files(folder)
    return _format_count_size_and_time_of_prompts(server, restored, begin, "restored")


def _restore_slot(
    server: Server, folder: OpenFolder, number: int, note: Note | None, loaded: Note, slots: dict[int, Slot]
) -> Note:
    """Restore a slot file to its slot or to another, which is taken from ``slots``; TuningError where it is unfit."""
    if note is None or note.get("form") != FORM or not _has_values_of_note(note):
        raise TuningError("its note is damaged, or of another version of sovereign.epyc.")
    if note["server"] != loaded:
        raise TuningError(f"it was saved by a server with {_difference_of_servers(note['server'], loaded)}.")
    slot = _choose_slot(number, note["tokens"], slots)
    if not server.seconds_left():
        raise TuningError("no time is left for it.")
    file, temporary = SLOT_FILE.format(number), UNFINISHED.format(number)
    if _compute_size_and_checksum(folder, file) != (note["size"], note["checksum"]):
        raise TuningError("its file is damaged.")
    folder.rename_file(file, temporary)
    answer = server.save_or_restore("restore", slot, temporary)
    del slots[slot]
    if answer.get("n_restored") != note["tokens"]:
        raise TuningError(f"the server has restored {answer.get('n_restored')} of {note['tokens']} tokens.")
    return note


def _has_values_of_note(note: Mapping[str, Any]) -> bool:
    """Return whether a note has all values in their types; the user of the service can write to its folder."""
    return isinstance(note.get("server"), dict) and all(
        parse_whole_number(note.get(key)) is not None for key in NOTE_NUMBERS
    )


def _choose_slot(number: int, tokens: int, slots: Mapping[int, Slot]) -> int:
    """Return the slot for a saved prompt: the one that it was in, or else the one with the fewest tokens.

    A slot may already have been used since the start, by the first question of the unit itself or by a client. Such a
    slot is only taken for a longer prompt, which takes longer to read.
    """
    lengths = {other: slot.tokens or 0 for other, slot in slots.items() if not slot.is_processing}
    fitting = sorted((length, other) for other, length in lengths.items() if length < tokens)
    if not fitting:
        raise TuningError("no slot is left for it.")
    return number if lengths.get(number, tokens) < tokens else fitting[0][1]


def _difference_of_servers(saved: Mapping[str, Any], loaded: Mapping[str, Any]) -> str:
    files, now = saved.get("files"), loaded["files"]
    files = files if isinstance(files, dict) else {}
    changed = sorted(path for path in {*files, *now} if files.get(path) != now.get(path))
    return f"another {changed[0]}" if changed else "other options"


def _read_loaded_files(
    fs: KernelFS, options_digest: str, files: Sequence[str], process: int | None
) -> tuple[Note, str]:
    """Return the note on what a server has loaded, and why this is not known; "" where it is known."""
    stamps = {}
    try:
        started = _read_start_time(fs, process) if process else time.time()
        for path in files:
            status = os.stat(path)
            stamps[path] = [status.st_size, status.st_mtime_ns]
            if status.st_ctime > started:
                return {}, f"{path} was changed after the server had started."
    except (OSError, TuningError, IndexError, ValueError) as error:
        return {}, f"it is not known what the server has loaded ({error})."
    return {"form": FORM, "options": options_digest, "files": stamps}, ""


def _read_start_time(fs: KernelFS, process: int) -> float:
    """Return when a process was started, in seconds since 1970."""
    ticks = int(read_process_start_time(fs, process))
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


@contextmanager
def _open_folder_as_its_owner(path: str) -> Iterator[OpenFolder]:
    """Hold a folder open during the block; a process of root takes the user of the folder for the rest of its life.

    Otherwise a server that was taken over could make root follow a link that the server puts into its folder.
    """
    with open_folder(path) as folder:
        owner = os.fstat(folder.descriptor)
        if os.geteuid() == 0 and owner.st_uid:
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)
        yield folder


def _remove_slot_files(folder: OpenFolder) -> None:
    for name in os.listdir(folder.descriptor):
        if ANY_SLOT_FILE.match(name):
            with suppress(OSError):
                folder.remove_file(name)


def _list_notes(folder: OpenFolder) -> list[tuple[int, Note | None]]:
    """Return number and note of each saved slot, the last used slot first; None for a damaged note."""
    names = [name for name in os.listdir(folder.descriptor) if ANY_NOTE.match(name)]
    notes = [(int(re.sub(r"[^0-9]", "", name)), _read_note(folder, name)) for name in names]
    return sorted(notes, key=lambda row: (-_last_use_sort_key(row[1]), row[0]))


def _last_use_sort_key(note: Note | None) -> int:
    order = note.get("order") if note else None
    return order if isinstance(order, int) else -1


def _read_note(folder: OpenFolder, name: str) -> Note | None:
    """Return a document of the folder; None where it is missing or damaged."""
    try:
        with open(folder.open_file(name), "rb") as file:
            note = parse_json(file.read(LARGEST_NOTE))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def _write_note(folder: OpenFolder, name: str, note: Note) -> None:
    with open(folder.create_file(name), "w", encoding="utf-8") as file:
        json.dump(note, file, sort_keys=True)


def _compute_size_and_checksum(folder: OpenFolder, name: str) -> tuple[int, int]:
    size = checksum = 0
    with open(folder.open_file(name), "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum


def _format_count_size_and_time_of_prompts(server: Server, notes: Sequence[Note], begin: float, done: str) -> str:
    tokens, size = (sum(note[key] for note in notes) for key in ("tokens", "size"))
    return (
        f"{len(notes)} prompt{'' if len(notes) == 1 else 's'} with {tokens} tokens "
        f"{'is' if len(notes) == 1 else 'are'} {done}: "
        f"{format_bytes_short(size)} in {server.clock.monotonic() - begin:.1f} s."
    )
