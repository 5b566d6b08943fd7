# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused of instances before a unit is touched, and only shows on the host: names, ports, files, users."""

from __future__ import annotations

import os
import pwd
from contextlib import contextmanager

from ..._errors import BadRequest, TuningError
from ..._io import sandbox
from ..._io.path_visibility import find_access_barrier
from ..hooks import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from ..._io.sandbox import Hardening
    from ..options.option_table import OptionTable

    #: The name of an instance, what is expected of its placement, and the files that it maps.
    FilePlacement = tuple[str, Mapping[str, Any], Sequence[str]]

#: How long opening files may take, of which a network may have some.
READ_TIMEOUT = 60
#: By what cannot be done: what to do about it.
ACCESS_ADVICE = {
    "entered": "Change its mode, as with 'chmod o+x', or name a user with the option user.",
    "read": "Change its mode, as with 'chmod o+r', or name a user with the option user.",
    "seen": "It lies in a folder that the unit does not have. Give the path that 'realpath' says, or move the file.",
}


class Refusals:
    """The refusals of several instances, so that one run names all of them."""

    def __init__(self) -> None:
        self.errors: list[TuningError] = []

    @contextmanager
    def collect_error(self, name: object = None) -> Iterator[None]:
        """Keep the error of this block, which names the instance that it is about, and go on after the block."""
        try:
            yield
        except TuningError as error:
            if name is not None:
                error.args = (f"Instance {name}: {Exception.__str__(error)}",)
            self.errors.append(error)

    def raise_all(self) -> None:
        """Raise the only error, or BadRequest with the sentence of each error, one a line."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            sentences = list(dict.fromkeys(str(error) for error in self.errors))
            raise BadRequest("\n".join(sentences), refusals=sentences)


def require_distinct_names_and_ports(options: Sequence[OptionTable]) -> None:
    names = [one.name for one in options]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"Two instances have the name {name}. Give each one of its own.")
    owners: dict[int, str] = {}
    for one in options:
        for port in (one.port, one.rpc_port):
            if port is None:
                continue
            other = owners.setdefault(port, one.name)
            if other != one.name:
                raise BadRequest(f"Instances {other} and {one.name} both have port {port}. Give each one of its own.")


def require_matching_file_placement(one: FilePlacement, other: FilePlacement) -> None:
    """Raise BadRequest where two instances map a file and want its pages on different nodes.

    The page cache holds a page once, where it was read first, and a page in use does not move.
    """
    places = [(expect["nodes"], expect["interleaved"], expect.get("rows")) for dummy, expect, more in (one, other)]
    if places[0] == places[1]:
        return
    files = [{file_identity(path) for path in paths} - {None} for dummy, more, paths in (one, other)]
    if files[0] & files[1]:
        path = next(path for path in one[2] if file_identity(path) in files[1])
        words = [f"{name} wants it {_format_placement(expect)}" for name, expect, dummy in (other, one)]
        raise BadRequest(
            f"{path} is mapped by {other[0]} too, and what is in the page cache can be in one place only: "
            f"{' and '.join(words)}, so that one of them would read it from afar. Give each a copy in its own memory "
            "with hugepages thp, pool or hugetlbfs, or with lock; or give both the same nodes, with memory rows the "
            "same threads too."
        )


def file_identity(path: str) -> tuple[int, int] | None:
    """Return which file it is, whatever links lead there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _format_placement(expect: Mapping[str, Any]) -> str:
    way = "by rows " if expect.get("rows") else "interleaved " if expect["interleaved"] else ""
    return f"{way}on nodes {expect['nodes']}"


def require_known_user(options: OptionTable) -> None:
    if options.user:
        _require_user(options.user)


def require_readable_files(
    options: OptionTable, paths: Sequence[str], staged: Collection[str], walls: Hardening
) -> None:
    """Raise BadRequest where the server would find out only when it starts, after the one before was stopped.

    The files are opened behind the walls of its unit, which is proof; why it fails, the modes on the way tell. Of a
    file that is ``staged`` the unit reads a copy, which is not there yet and has the mode of the file.
    """
    user = _require_user(options.user) if options.user else None
    who = (user.pw_uid, os.getgrouplist(options.user, user.pw_gid)) if user else None
    opened = [path for path in paths if path not in staged]
    done = (
        sandbox.run_in_sandbox(walls, ["head", "--quiet", "--bytes=1", "--", *opened], READ_TIMEOUT) if opened else None
    )
    words = done.err.strip() if done and done.code else ""
    suspects = opened if words else []
    for path in [*suspects, *staged]:
        barred = find_access_barrier(path, who, path in staged)
        if barred:
            name = f"user {options.user}" if user else "the user that systemd makes for it"
            raise BadRequest(f"{barred[0]} cannot be {barred[1]} by {name}. {ACCESS_ADVICE[barred[1]]}")
    if words:
        raise BadRequest(
            f"The unit cannot read its model, though the modes of {' and '.join(opened[:2])} allow it: {words} Look at "
            "lists of access (getfacl), at SELinux or AppArmor, and at unit_settings."
        )


def read_keys_change_time(options: OptionTable, knows_comments: bool, server: str) -> int | None:
    """Return when the file of API keys changed, in ns; None without a file. BadRequest where it protects nothing.

    ``knows_comments`` says whether the server, which the sentence names, ignores lines that begin with #.
    """
    path = options.api_key_file
    if not path:
        return None
    keys.read_keys(path)
    if not knows_comments and keys.has_comments(path):
        raise BadRequest(
            f"The key file {path} has lines that begin with #, and {server} takes such a line for a key, which "
            "anyone can guess. Take them out, or take a newer build."
        )
    return os.stat(path).st_mtime_ns


def _require_user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise BadRequest(f"There is no user {name}. Make one, or leave user out.") from None


def require_free_port(options: OptionTable, ending_urls: Collection[str]) -> None:
    """Raise BadRequest when another program listens at the port of an instance.

    ``ending_urls`` are those of running instances that end before it starts, "" where the port is not known.
    """
    # Imported here because most runs of the engine open no socket.
    import errno
    import socket

    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the server does: connections that have ended do not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, options.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if any(url.rpartition(":")[2] in ("", str(options.port)) for url in ending_urls):
                    return
                raise BadRequest(
                    f"port {options.port} of {options.host} is taken by another program; 'ss -ltnp' tells by which. "
                    "Give the instance another port, or stop that program."
                ) from None
            words = os.strerror(error.errno or 0)
            raise BadRequest(f"host {options.host}: {words}. Say an address of this host.") from None
