# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small JSON files that survive a crash, such as the ledger of originals and the stored requests.

Each file has a format number and is compared with its shape when it is loaded, so that callers get valid data or an
error with the path of the file. Callers hold the lock to change a file.

The boot service applies stored requests as root, so a folder or a file that other users may change is refused.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager, suppress

from .._errors import Absent, Damaged, NewerFormat, TuningError, missing_rights_advice
from .._formats import FIRST, add_stamp, take_stamp
from .._notation.shape import first_misfit_message
from . import textfile
from .kernelfs import hold_file_lock
from .safe_open import is_writable_by_root_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

HOME = "/var/lib/sovereign-epyc"
#: The folder with the documents of measuring runs.
BENCHMARK_FOLDER = f"{HOME}/benchmarks"
#: The file with the requests that the boot service applies.
REQUESTS = "desired.json"
#: The file that exists during a trial; see _knobs/trial.py.
TRIAL = "trial.json"
#: The file with the settings that were repaired, and when; see _drift/repair.py.
REPAIRS = "repairs.json"
#: The file with the measured memory bandwidth of the host; see _host/memory_speed.py.
MEMORY_SPEED = "memory-speed.json"
#: The file with a line for each run that changed this host; see _knobs/history/history_file.py.
HISTORY = "history.jsonl"
#: The present format of each file whose format is not FIRST. With requests of format 2 there is a ledger; see
#: _knobs/protocol/ledger.py.
FORMATS = {REQUESTS: 2}


class Store:
    """A folder of JSON files. A read-only one refuses to write, for check mode."""

    def __init__(self, root: str = "/", read_only: bool = False) -> None:
        self.folder = HOME if root == "/" else os.path.join(root, HOME.lstrip("/"))
        self.read_only = read_only
        self._held = 0

    def file_path(self, name: str) -> str:
        """Return the path of a file of the store."""
        return os.path.join(self.folder, name)

    def has_file(self, name: str) -> bool:
        """Return whether the store has a file. Raises TuningError for a folder that other users may change."""
        self._require_private_folder()
        return os.path.lexists(self.file_path(name))

    def load_document(self, name: str, shape: Any = dict) -> dict[str, Any]:
        """Return the data of a file, {} where it does not exist. Raises Damaged where it does not fit the shape.

        Shapes are explained in _notation/shape.py; here every key may be missing. Raises NewerFormat for a file of a
        newer version, and another TuningError for a file or a folder that other users may change.
        """
        return self._load_data_and_format(name, shape)[0]

    def has_older_format(self, name: str) -> bool:
        """Return whether a file has an older format than this version writes; False where it does not exist."""
        return self._load_data_and_format(name, dict)[1] < FORMATS.get(name, FIRST)

    def save_in_present_format(self, name: str) -> None:
        """Save a file of an older format in the present one; any other file stays as it is."""
        if self.has_older_format(name):
            self.save_document(name, self.load_document(name))

    def _load_data_and_format(self, name: str, shape: Any) -> tuple[dict[str, Any], int]:
        """Return the data of a file and the number of its format; {} and the present format for no file."""
        import json

        self._require_private_folder()
        path = self.file_path(name)
        try:
            data: dict[str, Any] = json.loads(_read_file_only_root_writes(path))
        except FileNotFoundError:
            if os.path.islink(path):
                raise Damaged(path, f"it is a link to {os.readlink(path)}, where nothing is") from None
            return {}, FORMATS.get(name, FIRST)
        except OSError as error:
            raise _unreadable_file_error(path, error) from None
        except (ValueError, RecursionError) as error:
            raise Damaged(path, f"it is no JSON: {error}") from None
        newest = FORMATS.get(name, FIRST)
        number = take_stamp(path, data, newest) if isinstance(data, dict) else newest
        message = first_misfit_message(data, shape, lacks_keys=True)
        if message:
            raise Damaged(path, message)
        return data, number

    def load_cache(self, name: str, shape: Any = dict) -> dict[str, Any]:
        """Return the data of a file that can be computed again, {} for one that is damaged or of a newer version.

        The next save replaces the file.
        """
        try:
            return self.load_document(name, shape)
        except (Damaged, NewerFormat):
            return {}

    def save_document(self, name: str, data: dict[str, Any]) -> None:
        """Replace a file by data, flushed to the disk."""
        import json

        self._write_text(name, json.dumps(add_stamp(data, FORMATS.get(name, FIRST)), indent=1, sort_keys=True) + "\n")

    def load_lines(self, name: str) -> list[str]:
        """Return the lines of a file that are not empty; none where the file does not exist.

        Bytes that cannot be decoded stay in a line as surrogates. Raises TuningError for a file or a folder that cannot
        be read, or that other users may change.
        """
        self._require_private_folder()
        path = self.file_path(name)
        try:
            text = _read_file_only_root_writes(path, errors="surrogateescape")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable_file_error(path, error) from None
        return [line for line in text.split("\n") if line]

    def save_lines(self, name: str, lines: Iterable[str]) -> None:
        """Replace a file by lines, flushed to the disk."""
        self._write_text(name, "".join(f"{line}\n" for line in lines))

    def _write_text(self, name: str, text: str) -> None:
        path = self.file_path(name)
        if self.read_only:
            raise TuningError(f"A check tried to write {path}. This is a fault of the collection: please report it.")
        self._make_folder()
        self._require_private_folder()
        textfile.write_file(path, text, 0o600)

    def remove_file(self, name: str) -> None:
        """Remove a file, and the folder where it is empty then; hold the lock."""
        textfile.remove_file(self.file_path(name))
        with suppress(OSError):
            os.rmdir(self.folder)

    def rename_file(self, name: str, new_name: str) -> None:
        """Rename a file of the store."""
        textfile.rename_file(self.file_path(name), self.file_path(new_name))

    def require_writable(self) -> None:
        """Raise TuningError where no file can be created in the folder; hold the lock, and call this before any change.

        A run creates a file and removes it, because some file systems show only so that they refuse it. Check mode
        creates nothing and asks the kernel with access(2).
        """
        self._require_private_folder()
        if self.read_only:
            if os.path.exists(self.folder) and not os.access(self.folder, os.W_OK):
                raise TuningError(f"{self.folder} cannot be written. Nothing was changed.")
            return
        try:
            textfile.require_writable_folder(self.folder)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise TuningError(f"{self.folder} cannot be written: {reason}. Nothing was changed.") from None

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock that every run takes before it changes this host; the holder may take it again.

        A run that removes the last file removes the folder too, so a waiting run locks a new folder. Temporary files of
        killed runs are removed.
        """
        if self._held:
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1
            return
        with ExitStack() as stack:
            made = self._make_and_lock_folder(stack)
            self._held = 1
            try:
                textfile.remove_temporary_files(self.folder)
                yield
            finally:
                self._held = 0
                if made:
                    with suppress(OSError):  # A folder with files stays.
                        os.rmdir(self.folder)

    def _make_and_lock_folder(self, stack: ExitStack) -> bool:
        """Lock the folder, made anew where another run removes it meanwhile; return whether it was missing."""
        made = False
        while True:
            made |= self._make_folder()
            self._require_private_folder()
            with suppress(Absent):
                descriptor = stack.enter_context(hold_file_lock(self.folder, self.folder))
                if _is_file_at_path(descriptor, self.folder):
                    return made
                stack.close()

    def _make_folder(self) -> bool:
        """Create the folder; return whether it was missing."""
        try:
            os.makedirs(self.folder, mode=0o700)
        except FileExistsError:
            return False
        except OSError as error:
            raise TuningError(f"{self.folder} cannot be made: {os.strerror(error.errno or 0)}.") from None
        return True

    def _require_private_folder(self) -> None:
        """Raise TuningError where the path exists and is no folder that only root may change."""
        folder = self.folder
        try:
            status = os.stat(folder)
        except FileNotFoundError:
            if os.path.islink(folder):
                raise TuningError(
                    f"{folder} is a link to {os.readlink(folder)}, where nothing is. Nothing was changed. Mount the "
                    "file system that holds that folder, or remove the link, and run this again."
                ) from None
            return
        except OSError as error:
            raise TuningError(
                f"{folder} cannot be looked at: {os.strerror(error.errno or 0)}. Nothing was changed."
            ) from None
        if not stat.S_ISDIR(status.st_mode):
            raise TuningError(
                f"{folder} is no folder, and the record of this host belongs into one. Nothing was changed. Move it "
                "away, and run this again."
            )
        _require_writable_by_root_only(folder, status, "700")


def _read_file_only_root_writes(path: str, errors: str = "strict") -> str:
    """Return the text of a file that only root may change; a pipe is refused without waiting for its other end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Damaged(path, "it is no ordinary file")
        _require_writable_by_root_only(path, status, "600")
        with open(descriptor, encoding="utf-8", errors=errors, closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _unreadable_file_error(path: str, error: OSError) -> TuningError:
    return TuningError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.{missing_rights_advice(error)}")


def _require_writable_by_root_only(path: str, status: os.stat_result, mode: str) -> None:
    """Raise TuningError for a file or folder that users other than root and the caller may change.

    The message names ``mode`` as the right one.
    """
    if is_writable_by_root_only(status):
        return
    raise TuningError(
        f"{path} is of {_user_name(status.st_uid)} and has the mode {stat.S_IMODE(status.st_mode):04o}, so others than "
        "root can change what this host is tuned to at its next boot. Nothing was changed. Look whether what it holds "
        f"is still yours, then run 'chown root: {path} && chmod {mode} {path}', and this again."
    )


def _user_name(user: int) -> str:
    """Return the name of a user, or its number where this host has no such user."""
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"the user {user}"


def _is_file_at_path(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
