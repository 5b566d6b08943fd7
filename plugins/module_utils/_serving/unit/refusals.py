# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses instances for reasons that only the host shows, before a unit is touched: names, ports, files and users."""

from __future__ import annotations

import os
import pwd
from contextlib import contextmanager

from ..._errors import BadRequest, TuningError
from ..._io import sandbox, textfile
from ..._io.path_visibility import find_access_barrier
from ..._kernel import tcp_sockets
from ..hooks import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..._io.sandbox import Hardening
    from ..options.option_table import OptionTable

    #: The name of an instance, its planned placement, and the files that it maps.
    FilePlacement = tuple[str, Mapping[str, Any], Sequence[str]]

#: The folders of the units that packages install.
PACKAGED_UNIT_FOLDERS = ("/usr/lib/systemd/system", "/lib/systemd/system")
#: The seconds that opening the files may take, which may be on a network.
READ_TIMEOUT = 60
#: Advice for a path, by the missing access: a folder that cannot be entered, or a file that cannot be read or seen.
ACCESS_ADVICE = {
    "entered": "Change its mode, as with 'chmod o+x', or name a user with the option user.",
    "read": "Change its mode, as with 'chmod o+r', or name a user with the option user.",
    "seen": "It lies in a folder that the unit does not have. Give the path that 'realpath' says, or move the file.",
}


class Refusals:
    """Collects the errors of several instances, so that one run reports all of them."""

    def __init__(self) -> None:
        self.errors: list[TuningError] = []

    @contextmanager
    def collect_error_of_block(self, name: object = None) -> Iterator[None]:
        """Collect an error of the block, with the name of its instance, and continue after the block."""
        try:
            yield
        except TuningError as error:
            if name is not None:
                error.args = (f"Instance {name}: {Exception.__str__(error)}",)
            self.errors.append(error)

    def raise_collected_errors(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            sentences = list(dict.fromkeys(str(error) for error in self.errors))
            raise BadRequest("\n".join(sentences), refusals=sentences)


def require_distinct_names_and_ports(options: Sequence[OptionTable]) -> None:
    names = [instance.name for instance in options]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"Two instances have the name {name}. Give each another name.")
    owners: dict[int, str] = {}
    for instance in options:
        for port in (instance.port, instance.rpc_port):
            if port is None:
                continue
            owner = owners.setdefault(port, instance.name)
            if owner != instance.name:
                raise BadRequest(
                    f"Instances {owner} and {instance.name} both have port {port}. Give each another port."
                )


def require_no_packaged_unit(unit_names: Iterable[str], root: str) -> None:
    """Raise BadRequest for a unit name of an instance that a package has, as llama-server.service of Debian has.

    The unit of the instance would hide the one of the package, and scripts of the package would stop the instance.
    """
    for path in (f"{folder}/{unit}" for unit in unit_names for folder in PACKAGED_UNIT_FOLDERS):
        if os.path.exists(textfile.path_in_tree(root, path)):
            raise BadRequest(
                f"Its unit would have the name of {path}, which a package installed, and each update of that package "
                "would stop the instance. Give the instance another name."
            )


def require_matching_file_placement(first: FilePlacement, second: FilePlacement) -> None:
    """Raise BadRequest where two instances map the same file and want its pages on different nodes.

    The page cache has only one copy of a page, on the node where the page was first read, and a mapped page does not
    move.
    """
    places = [(expect["nodes"], expect["interleaved"], expect.get("rows")) for dummy, expect, more in (first, second)]
    if places[0] == places[1]:
        return
    files = [{device_and_inode(path) for path in paths} - {None} for dummy, more, paths in (first, second)]
    if files[0] & files[1]:
        path = next(path for path in first[2] if device_and_inode(path) in files[1])
        wishes = [f"{name} wants it {_format_placement(expect)}" for name, expect, dummy in (second, first)]
        raise BadRequest(
            f"{path} is mapped by {second[0]} too, and what is in the page cache can be in one place only: "
            f"{' and '.join(wishes)}, so that one of them would read it from afar. Give each a copy in its own memory "
            "with hugepages thp, pool or hugetlbfs, or with lock; or give both the same nodes, with memory rows the "
            "same threads too."
        )


def device_and_inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, which are equal for all links to the file; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _format_placement(expect: Mapping[str, Any]) -> str:
    policy = "by rows " if expect.get("rows") else "interleaved " if expect["interleaved"] else ""
    return f"{policy}on nodes {expect['nodes']}"


def require_known_user(options: OptionTable) -> None:
    if options.user:
        _require_user(options.user)


def require_readable_files(
    options: OptionTable, paths: Sequence[str], staged: Collection[str], hardening: Hardening
) -> None:
    """Raise BadRequest for files that the user of the unit cannot read.

    The files are opened in a sandbox with the hardening of the unit, which proves that the unit can read them; the
    modes of the folders explain a failure. A ``staged`` file is not opened: the unit reads a copy of the file, which
    does not exist yet and will have the same mode.
    """
    user = _require_user(options.user) if options.user else None
    user_and_groups = (user.pw_uid, os.getgrouplist(options.user, user.pw_gid)) if user else None
    opened = [path for path in paths if path not in staged]
    result = (
        sandbox.run_in_sandbox(hardening, ["head", "--quiet", "--bytes=1", "--", *opened], READ_TIMEOUT)
        if opened
        else None
    )
    error_output = result.err.strip() if result and result.code else ""
    suspects = opened if error_output else []
    for path in [*suspects, *staged]:
        barrier = find_access_barrier(path, user_and_groups, path in staged)
        if barrier:
            name = f"user {options.user}" if user else "the user that systemd makes for it"
            raise BadRequest(f"{barrier[0]} cannot be {barrier[1]} by {name}. {ACCESS_ADVICE[barrier[1]]}")
    if error_output:
        raise BadRequest(
            f"The unit cannot read its model, though the modes of {' and '.join(opened[:2])} allow it: {error_output} "
            "Look at lists of access (getfacl), at SELinux or AppArmor, and at unit_settings."
        )


def read_keys_change_time(options: OptionTable, knows_comments: bool, server: str) -> int | None:
    """Return when the file of API keys changed, in ns; None without a file. BadRequest for one that protects nothing.

    ``knows_comments`` says whether ``server``, as the message names it, ignores lines that begin with #.
    """
    path = options.api_key_file
    if not path:
        return None
    keys.read_api_keys(path)
    if not knows_comments and keys.has_comment_lines(path):
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


def require_free_port(fs: KernelFS, options: OptionTable, ending_units: Collection[str]) -> None:
    """Raise BadRequest when another program has the port of an instance.

    ``ending_units`` are units that end before the start of the instance: their processes, which are found by their
    control groups, may have the port. Connections that have ended do not count, because a start waits for them.
    """
    # Imported here because most runs of the engine open no socket.
    import errno
    import socket

    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the server does: connections that have ended do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, options.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if not _has_foreign_socket(fs, options, ending_units):
                    return
                raise BadRequest(
                    f"port {options.port} of {options.host} is taken by another program; 'ss -ltnp' shows which. "
                    "Give the instance another port, or stop that program."
                ) from None
            reason = os.strerror(error.errno or 0)
            raise BadRequest(f"host {options.host}: {reason}. Give an address of this host.") from None


def _has_foreign_socket(fs: KernelFS, options: OptionTable, units: Collection[str]) -> bool:
    """Return whether a program other than the processes of ``units`` has a socket at the port of an instance."""
    try:
        inodes = tcp_sockets.list_socket_inodes_at_port(fs, options.host, options.port)
        inodes -= tcp_sockets.list_socket_inodes_of_units(fs, units)
        # A connection to one of the units may have ended between the two lists.
        return bool(inodes and inodes & tcp_sockets.list_socket_inodes_at_port(fs, options.host, options.port))
    except TuningError:
        return True
