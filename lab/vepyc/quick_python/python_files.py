# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of guests and containers by which Python starts sooner there than on a real host."""

from __future__ import annotations

from ..paths import PACKAGE
from .ssh import SOCKET

FORK_SERVER = "usr/local/lib/vepyc/forkserver.py"
_BYTECODE = "usr/lib/python3/dist-packages/vepyc_bytecode"  # in the search path of every Python 3 of Debian
_UNITS = "etc/systemd/system"
#: Command that removes all of these files' effects.
REMOVE_SPEEDUPS = f"systemctl stop vepyc-python.socket vepyc-python.service && rm /{_BYTECODE}.pth"
#: Command that kills running modules at once; the next module starts a new Python.
KILL_MODULES = "systemctl kill --signal=KILL vepyc-python.service"

# The fork server (forkserver.py), which runs modules of Ansible that ssh.py sends, with the environment of ssh.
_SOCKET = f"""\
[Unit]
Description=Python programs without the start of Python
[Socket]
ListenStream={SOCKET}
SocketMode=0600
[Install]
WantedBy=sockets.target
"""
_SERVICE = f"""\
[Unit]
Description=Python programs without the start of Python
[Service]
ExecStart=/usr/bin/python3 /{FORK_SERVER} --socket
StandardInput=socket
StandardOutput=journal
WorkingDirectory=/root
Environment=HOME=/root LOGNAME=root SHELL=/bin/bash USER=root
UnsetEnvironment=INVOCATION_ID JOURNAL_STREAM LISTEN_FDNAMES LISTEN_FDS LISTEN_PID SYSTEMD_EXEC_PID
KillMode=process
"""
#: Symbolic links by their paths in the system.
SPEEDUP_LINKS = {f"{_UNITS}/sockets.target.wants/vepyc-python.socket": "../vepyc-python.socket"}


def speedup_files() -> dict[str, str]:
    """Return the text files by their paths in the system."""
    return {
        f"{_UNITS}/vepyc-python.service": _SERVICE,
        f"{_UNITS}/vepyc-python.socket": _SOCKET,
        FORK_SERVER: (PACKAGE / "quick_python/forkserver.py").read_text(),
        f"{_BYTECODE}.py": (PACKAGE / "quick_python/bytecode.py").read_text(),
        f"{_BYTECODE}.pth": "import vepyc_bytecode\n",
    }
