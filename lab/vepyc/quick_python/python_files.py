# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guests and containers have so that Python starts sooner there: files that are put into their systems."""

from __future__ import annotations

from ..paths import PACKAGE
from .ssh import SOCKET

FORK_SERVER = "usr/local/lib/vepyc/forkserver.py"
_BYTECODE = "usr/lib/python3/dist-packages/vepyc_bytecode"  # every Python 3 of Debian looks there
_UNITS = "etc/systemd/system"
#: Takes all of this away.
REMOVE_SPEEDUPS = f"systemctl stop vepyc-python.socket vepyc-python.service && rm /{_BYTECODE}.pth"
#: Kills the modules that run there, in the middle of what they do; the next one starts a new Python.
KILL_MODULES = "systemctl kill --signal=KILL vepyc-python.service"

# A Python that is there already, for modules of Ansible (forkserver.py, ssh.py). Its environment is that of ssh.
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
#: The symbolic links, by path.
SPEEDUP_LINKS = {f"{_UNITS}/sockets.target.wants/vepyc-python.socket": "../vepyc-python.socket"}


def speedup_files() -> dict[str, str]:
    """The text files, by path."""
    return {
        f"{_UNITS}/vepyc-python.service": _SERVICE,
        f"{_UNITS}/vepyc-python.socket": _SOCKET,
        FORK_SERVER: (PACKAGE / "quick_python/forkserver.py").read_text(),
        f"{_BYTECODE}.py": (PACKAGE / "quick_python/bytecode.py").read_text(),
        f"{_BYTECODE}.pth": "import vepyc_bytecode\n",
    }
