#!/usr/bin/env -S python3 -IS
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends a module of Ansible to the fork server of a guest or container (forkserver.py) instead of starting a Python.

Tests give it to Ansible as ssh, through ssh.sh, which calls it only if the command mentions Python. It leaves all other
commands to ssh, and modules, too, if the fork server does not answer, as on a guest without it. The connection that
Ansible's calls of ssh share forwards the socket of the fork server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys

SOCKET = "/run/vepyc-python.sock"
_NEW_PYTHON = re.compile(r"/bin/sh -c '?/usr/bin/python3( && sleep 0)?'?")
_ARCHIVE = re.compile(r"^zip_data='([A-Za-z0-9+/=]+)',$", re.MULTILINE)
#: The line before which the code ends that all programs of Ansible share.
_OWN_PART = re.compile(r"""^(?=if __name__ == ["']__main__["']:$)""", re.MULTILINE)
#: The answer of a fork server that has not received this archive yet.
_WITHOUT_ARCHIVE = '"archive"\n'
_SSH_FAILED = 255


def main() -> int:
    options = sys.argv[1:]
    settings = dict(option.split("=", 1) for option in options if "=" in option)
    if _NEW_PYTHON.fullmatch(options[-1]) and "ControlPath" in settings:
        folder = os.path.dirname(os.path.abspath(settings["ControlPath"].strip('"')))
        host = settings.get("Port", options[-2])  # a port identifies a guest, a name a container
        forwarded = f"{folder}/python-{host}"
        connection = _connect_to_python(forwarded)
        if not connection:
            # It opens the shared connection if there is none yet.
            forward = ["-o", "StreamLocalBindUnlink=yes", "-L", f"{forwarded}:{SOCKET}"]
            subprocess.run(
                ["ssh", *forward, *options[:-1], "true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            connection = _connect_to_python(forwarded)
        if connection:
            return _execute_program(connection)
    os.execvp("ssh", ["ssh", *options])


def _connect_to_python(path: str) -> socket.socket | None:
    """Return a connection to a fork server that is ready; None if there is none."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        if connection.recv(64):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _build_request(program: str) -> tuple[dict[str, object], str]:
    """Return the request to run a program, and the text of its archive, which the program then refers to by a name."""
    archive = _ARCHIVE.search(program)
    if not archive:  # of an older Ansible, or of a test, without an archive
        return {"program": [program], "imports": [], "parameters": None, "archive": ""}, ""
    name = f"archive_{hashlib.sha256(archive[1].encode()).hexdigest()}"
    named = f"{program[: archive.start(1) - 1]}{name}{program[archive.end(1) + 1 :]}"
    return {"program": _OWN_PART.split(named), "imports": [], "parameters": None, "archive": name}, archive[1]


def _execute_program(connection: socket.socket) -> int:
    """Have the fork server execute the program from the standard input; print its output and return its exit code."""
    request, archive = _build_request(sys.stdin.read())
    line = ""
    with connection, connection.makefile("rw") as stream:
        try:
            print(json.dumps(request), file=stream, flush=True)
            line = stream.readline()
            if line == _WITHOUT_ARCHIVE:
                print(json.dumps(archive), file=stream, flush=True)
                line = stream.readline()
        except OSError:
            pass
    if not line:
        print("The connection to the guest ended before the module did.", file=sys.stderr)
        return _SSH_FAILED
    answer = json.loads(line)
    for text, stream_of_ours in ((answer["output"], sys.stdout), (answer["errors"], sys.stderr)):
        stream_of_ours.buffer.write(text.encode(errors="surrogateescape"))
    return int(answer["code"])


if __name__ == "__main__":
    sys.exit(main())
