# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a smaller model from a GGUF file with llama-quantize, unless the smaller model exists already.

The new file is renamed to its final name when it is complete. An existing file is up to date when it has the tensors of
the source and the requested type, was made with the same importance matrix, and is not older than the source.

The folder of the models may belong to another user. So llama-quantize never runs as root, and it writes to a folder
that only root can enter, which is mounted at another path for the program. The new file is opened once, and its owner
and mode are set through this descriptor.
Source: tools/quantize/quantize.cpp and include/llama.h (enum llama_ftype) of llama.cpp.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack

from .._errors import BadRequest, TuningError
from .._io import sandbox
from .._io.kernelfs import hold_file_lock
from .._io.path_visibility import find_access_barrier
from .._io.safe_open import OpenFolder, make_private_folder, open_folder
from .._io.web.download import require_disk_space
from .._notation.numbers import require_whole_number
from .._notation.sizes import parse_bytes
from . import gguf
from .model import Model, read_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.store import Store

#: The number of each type in general.file_type, and the most bits of a weight on average. Small models need most bits:
#: a large share of their weights belongs to the vocabulary, for which every type uses 6 bits or more.
TYPES = {
    "Q2_K": (10, 4.5),
    "Q3_K_S": (11, 5.0),
    "Q3_K_M": (12, 5.0),
    "Q3_K_L": (13, 5.0),
    "IQ4_XS": (30, 5.5),
    "IQ4_NL": (25, 5.5),
    "Q4_0": (2, 5.5),
    "Q4_1": (3, 6.0),
    "Q4_K_S": (14, 5.5),
    "Q4_K_M": (15, 6.0),
    "Q5_0": (8, 6.5),
    "Q5_1": (9, 7.0),
    "Q5_K_S": (16, 6.5),
    "Q5_K_M": (17, 7.0),
    "Q6_K": (18, 7.5),
    "Q8_0": (7, 9.0),
    "F16": (1, 17.0),
    "BF16": (32, 17.0),
}
#: The types of tensors in a file that was not quantized.
UNQUANTIZED_TYPES = ("F32", "F16", "BF16", "F64")
FILE_TYPE, MATRIX = "general.file_type", "quantize.imatrix.file"
#: llama-quantize writes this number of characters of the importance matrix's path to the new file.
LONGEST_MATRIX = 127
BINARY = "llama-quantize"
#: The path at which llama-quantize sees its output folder.
OUTPUT = "/tmp/sovereign-epyc-quantize"
#: The most bytes that the new file may have in addition to its weights.
MOST_OTHER_BYTES = gguf.LARGEST_HEADER + (64 << 20)


def ensure_quantized_file(options: Mapping[str, Any], dummy: Store | None, check: bool = False) -> dict[str, Any]:
    """Make the requested file unless it exists, and return a module's result; check mode makes no file."""
    request = QuantizedFile(options)
    model = request.read_existing_if_up_to_date()
    changed = model is None
    if changed:
        require_disk_space(
            request.path, request.largest_possible_bytes, parse_bytes(options.get("reserve") or "1GiB", "reserve")
        )
        model = None if check else request.quantize()
    address = f"model_quantize:{request.path}"
    return {
        "changed": changed,
        "diff": {
            "before": {address: None} if changed else {},
            "after": {address: f"{request.type} of {request.source.path}"} if changed else {},
        },
        "path": request.path,
        "size": model.file_bytes if model else None,
        "source_size": request.source.file_bytes,
    }


class QuantizedFile:
    """The requested file with its source and type; BadRequest for an impossible request."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.type = str(options["type"]).upper()
        if self.type not in TYPES:
            raise BadRequest(f"type is '{options['type']}'; say one of {', '.join(TYPES)}.")
        self.path = str(options["path"])
        self.folder, self.name = os.path.split(self.path)
        self.binary = str(options["binary"])
        self.matrix = str(options.get("imatrix") or "")
        self.threads = require_whole_number(options.get("threads") or 0, "threads")
        self.may_requantize = bool(options.get("requantize"))
        self.source = read_model(str(options["source"]))
        if os.path.realpath(self.path) in [os.path.realpath(part.path) for part in self.source.parts]:
            raise BadRequest(f"path is {self.path}, the source itself, which would be lost. Say another path.")
        small = sorted({tensor.type for tensor in self.source.tensors} - set(UNQUANTIZED_TYPES))
        if small and not self.may_requantize:
            raise BadRequest(
                f"{self.source.path} is quantized itself ({', '.join(small)}), and its lost precision stays lost. Take "
                "the file in F16 or BF16, or set requantize to true."
            )
        if self.matrix and not os.path.isfile(self.matrix):
            raise BadRequest(f"imatrix: there is no file {self.matrix}. Make it with llama-imatrix, or leave it out.")
        if not os.path.isdir(self.folder):
            raise BadRequest(f"path: there is no folder {self.folder}. Make it first.")

    @property
    def largest_possible_bytes(self) -> int:
        """The most bytes that the new file takes."""
        return int(sum(tensor.elements for tensor in self.source.tensors) * TYPES[self.type][1] / 8)

    def read_existing_if_up_to_date(self) -> Model | None:
        """Return the model in the existing file if the file is up to date, None otherwise."""
        try:
            model = read_model(self.path)
        except BadRequest:
            return None
        is_it = (
            model.header_number(FILE_TYPE) == TYPES[self.type][0]
            and _tensor_shapes(model) == _tensor_shapes(self.source)
            and model.header_text(MATRIX) == self.matrix[:LONGEST_MATRIX]
            and model.parts[0].changed >= max(part.changed for part in self.source.parts)
        )
        return model if is_it else None

    def quantize(self) -> Model:
        """Make the new file with llama-quantize in a private folder, verify it, and rename it to its final name."""
        if not os.access(self.binary, os.X_OK):
            raise BadRequest(
                f"binary: there is no program {self.binary}. llama_build makes it beside llama-server; or name yours."
            )
        user = self._unit_lines_of_unprivileged_user()
        try:
            with ExitStack() as stack:
                folder = stack.enter_context(open_folder(self.folder))
                stack.enter_context(hold_file_lock(f"/proc/self/fd/{folder.descriptor}", self.folder, timeout=0.5))
                part = stack.enter_context(make_private_folder(folder, f".{self.name}.part"))
                # Everybody may write to the folder "new", because the user of llama-quantize is not known yet. Only
                # root can enter the private folder around it.
                new = stack.enter_context(part.make_folder("new", 0o777))
                self._run_program(user, new.path)
                self._verify_and_install_file(new, folder)
        except OSError as error:
            raise TuningError(f"{self.path} cannot be made: {error.strerror}. Nothing is left of it.") from None
        return read_model(self.path)

    def _list_input_files(self) -> list[str]:
        """Return the paths of the files that llama-quantize reads."""
        return [*(part.path for part in self.source.parts), *([self.matrix] if self.matrix else [])]

    def _unit_lines_of_unprivileged_user(self) -> list[str]:
        """Return the settings of systemd for the user of llama-quantize: a dynamic user, or the owner of the source.

        BadRequest where neither user can read all files.
        """
        files = self._list_input_files()
        owner = os.stat(self.source.path)
        bars = next(filter(None, (find_access_barrier(path, None) for path in files)), None)
        if not bars:
            return ["DynamicUser=yes"]
        if not owner.st_uid or any(find_access_barrier(path, (owner.st_uid, [owner.st_gid])) for path in files):
            raise BadRequest(
                f"{bars[0]} cannot be {bars[1]} by {BINARY}, which never runs as root: neither a user without rights "
                f"nor the owner of {self.source.path} can. Change its mode, as with 'chmod o+rX'."
            )
        return [f"User={owner.st_uid}", f"Group={owner.st_gid}"]

    def _run_program(self, user: list[str], folder: str) -> None:
        output = os.path.join(OUTPUT, self.name)
        words = [self.binary, *(["--imatrix", self.matrix] if self.matrix else [])]
        words += ["--allow-requantize"] if self.may_requantize else []
        words += [self.source.path, output, self.type, *([str(self.threads)] if self.threads else [])]
        walls = [
            *user,
            *sandbox.HARDENING,
            "PrivateNetwork=yes",
            f"LimitFSIZE={max(self.largest_possible_bytes, self.source.file_bytes) + MOST_OTHER_BYTES}",
            *sandbox.visible_folder_settings([self.binary, *self._list_input_files()]),
            *sandbox.writable_folder_settings(folder, OUTPUT),
        ]
        done = sandbox.run_in_sandbox(walls, words, None)
        if done.code != 0:
            lines = [line.strip() for line in (done.err + done.out).splitlines() if line.strip()]
            error_line = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "nothing")
            raise TuningError(
                f"{self.source.path} cannot be made {self.type}: {BINARY} ended with exit code {done.code}. It says: "
                f"{error_line.rstrip('.')}. Nothing is left of it."
            )

    def _verify_and_install_file(self, new: OpenFolder, folder: OpenFolder) -> None:
        """Verify the type of the new file, give it owner and mode of the source, and rename it to its final name."""
        descriptor = new.open_file(self.name)
        with open(descriptor, "rb") as file:
            header = gguf.read_header(file, self.name, os.fstat(descriptor).st_size)
            if header.values.get(FILE_TYPE) != TYPES[self.type][0]:
                raise TuningError(f"{BINARY} made no {self.type} of {self.source.path}. Nothing is left of it.")
            status = os.stat(self.source.path)
            os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o777)
            os.fsync(descriptor)
        new.rename_file(self.name, self.name, folder)
        folder.flush_folder_entries()


def _tensor_shapes(model: Model) -> list[tuple[str, int]]:
    return sorted((tensor.name, tensor.elements) for tensor in model.tensors)
