# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: a stock Debian with its own systemd on this machine's kernel and processor.

Tests use containers for programs that must run at full speed, or in many copies, and need no EPYC. A container has only
a loopback network, and a virtual cable to another container where a test asks for that. Its disk is deleted with it.
Commands and Ansible enter it through its namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .cache_folders import ensure_folder
from .errors import GuestError, VepycError
from .images.debian import install_debian, write_files_and_links
from .paths import compute_digest, ensure_directory, ensure_ssh_key, hold_lock
from .quick_python import python_files

SUITE = "trixie"
SYSTEM_PACKAGES = ("dbus", "iproute2", "openssh-server", "procps", "python3", "python3-apt", "sudo", "systemd-sysv")
#: Those and the tools to build llama.cpp. cmake only recommends make, and mmdebstrap does not install recommendations.
PACKAGES = (*SYSTEM_PACKAGES, "ccache", "cmake", "g++", "make")
# Units that cannot work in a container, or would make `systemctl is-system-running` say "degraded".
_MASKED_UNITS = ("systemd-modules-load.service", "apt-daily.timer", "apt-daily-upgrade.timer", "ssh.service")
_LINKS = {**{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED_UNITS}, **python_files.SPEEDUP_LINKS}
_FILES = {
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/machine-id": "",  # empty, so that each container generates its own machine id
    "etc/resolv.conf": "",
    # sshd needs this folder. Its unit, which would create it, is masked: each connection starts an sshd of its own.
    "etc/tmpfiles.d/vepyc.conf": "d /run/sshd 0755\n",
}
_BOOT_TIMEOUT = 60

# $1: the name, $2: the root, $3: the folder of this container; then options for systemd-nspawn. On a machine without
# systemd the script itself makes a control group for the container, in every hierarchy that systemd-nspawn uses.
_START = r"""
set -e
name=$1 root=$2 folder=$3
shift 3
if [ ! -d /run/systemd/system ]; then
    set -- --keep-unit "$@"
    for tree in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
        [ -e $tree/cgroup.procs ] || continue
        mkdir -p $tree/vepyc-$name
        echo $$ >$tree/vepyc-$name/cgroup.procs
    done
fi
mount -t overlay overlay -o lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work $folder/root
exec env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn "$@" --directory=$folder/root --machine=$name \
    --boot --register=no --private-network --capability=all --console=pipe --quiet --link-journal=no
"""


# Program that accepts connections at the socket given as first argument and forwards them to the port given as second.
_RELAY = """
import asyncio, contextlib, socket, sys

async def pipe(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()

async def relay(reader, writer):
    try:
        there, back = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(pipe(reader, back), pipe(there, writer))

async def main():
    server = await asyncio.start_server(relay, sock=socket.socket(fileno=int(sys.argv[1])))
    await server.serve_forever()

asyncio.run(main())
"""


class Container:
    """A container that has booted; `running_container` starts it."""

    def __init__(self, name: str, leader: int) -> None:
        self.name = name
        #: Process id of the container's first process, in the numbers of this machine.
        self.leader = str(leader)
        self._inside = ["nsenter", f"--target={leader}", "--all"]

    def run(
        self, command: str, check: bool = True, input: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the container as root. With `check`, a non-zero exit code raises GuestError."""
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # Commands start in the root folder, as the container's first process does.
        argv = [*self._inside, "env", "-i", "--chdir=/", path, "HOME=/root", "LC_ALL=C.UTF-8", "sh", "-c", command]
        try:
            done = subprocess.run(argv, input=input, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise GuestError(f"{self.name}: no end after {timeout:.0f} s: {command}") from None
        if check and done.returncode:
            text = f"{self.name}: exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}"
            raise GuestError(text.rstrip())
        return done

    def remove_speedups(self) -> None:
        """Remove the helpers that make Python start faster here than on a real host, before Ansible is measured."""
        self.run(python_files.REMOVE_SPEEDUPS)

    def connect_cable(self, other: Container, own_address: str, other_address: str) -> None:
        """Connect to another container by an interface `cable` on each side, with addresses such as 10.8.0.1/24."""
        # `ip` runs on this machine, because only here the processes of both containers are visible.
        ends = ["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", other.leader]
        done = subprocess.run(["nsenter", self._inside[1], "--net", "ip", *ends], capture_output=True, text=True)
        if done.returncode:
            text = f"no cable from {self.name} to {other.name}: {done.stderr.strip()}"
            raise GuestError(f"{text}; lab/README.md lists the packages that the lab needs")
        for box, address in ((self, own_address), (other, other_address)):
            box.run(f"ip address add {address} dev cable && ip link set cable up")

    @contextlib.contextmanager
    def published_port(self, port: int) -> Iterator[int]:
        """Forward a free port of this machine's loopback to a port of the container's; yield the free port."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            number = listening.fileno()
            # The socket stays one of this machine's network, although a process in the container's network uses it.
            words = [sys.executable, "-c", _RELAY, str(number), str(port)]
            relay = subprocess.Popen(["nsenter", self._inside[1], "--net", *words], pass_fds=[number])
            try:
                yield int(listening.getsockname()[1])
            finally:
                relay.terminate()
                relay.wait()

    def inventory_variables(self, wrapper: Sequence[str] = ()) -> dict[str, str]:
        """Return the inventory variables by which Ansible reaches the container, through an sshd for each connection.

        ``wrapper`` is a command in the container that starts sshd, for instance nsenter.
        """
        sshd = [*self._inside, *wrapper, "/usr/sbin/sshd", "-i", "-o", "UsePAM=no"]
        settings = {
            "ProxyCommand": f"'{shlex.join(sshd)}'",
            # The connection never leaves this machine.
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
        }
        return {
            # Ansible shares connections by this name. The process id in it keeps a later container from an old one.
            "ansible_host": f"{self.name}-{self.leader}",
            "ansible_user": "root",
            # quick_python/ssh.py would use the fork server of the container, outside of ``wrapper``. It leaves a Python
            # with another path alone.
            "ansible_python_interpreter": "/bin/python3" if wrapper else "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(ensure_ssh_key()),
            "ansible_ssh_common_args": " ".join(f"-o {key}={value}" for key, value in settings.items()),
        }


@contextlib.contextmanager
def running_container(
    name: str,
    binds: Mapping[Path, str] | None = None,
    writable: Mapping[Path, str] | None = None,
    suite: str = SUITE,
    packages: Sequence[str] = PACKAGES,
) -> Iterator[Container]:
    """Start a container, and end it when the block ends. If one of this name runs already, wait for its end first.

    ``binds`` are folders or files of this machine, with their paths in the container, where they are read-only;
    ``writable`` are those that the container may change. ``suite`` is the release of Debian, with these packages.
    """
    if os.geteuid() != 0:
        raise VepycError("containers need root, because their namespaces do; run this command as root")
    root = ensure_container_root(suite, packages)
    with hold_lock(f"container-{name}"):
        folder = ensure_directory("containers", name)
        shutil.rmtree(folder)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True)
        log = ensure_directory("logs") / f"container-{name}.log"
        # When this process is killed, the kernel kills process 1 of the namespace, and with it every process in there.
        command = ["setpriv", "--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child"]
        command += ["--mount", "--mount-proc", "--propagation=private"]
        command += ["sh", "-c", _START, "sh", name, str(root), str(folder)]
        command += [f"--bind={source}:{target}" for source, target in (writable or {}).items()]
        command += [f"--bind-ro={source}:{target}" for source, target in (binds or {}).items()]
        with log.open("w") as output:
            try:
                owner = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            except FileNotFoundError:
                raise VepycError(f"{command[0]} is not installed; lab/README.md lists the packages") from None
        try:
            yield Container(name, _wait_until_booted(owner, name, log))
        finally:
            # No shutdown is needed, because the disk is deleted. All processes of a namespace end with its process 1.
            for process in _child_processes(owner.pid):
                os.kill(process, signal.SIGKILL)
            owner.wait()
            _remove_control_groups(name)
            shutil.rmtree(folder)


def ensure_container_root(suite: str = SUITE, packages: Sequence[str] = PACKAGES) -> Path:
    """Return the folder of the Debian that containers start from; build it first when it is missing."""
    files = {
        **_FILES,
        **python_files.speedup_files(),
        "root/.ssh/authorized_keys": ensure_ssh_key().with_suffix(".pub").read_text(),
    }
    parts = [suite, *packages, json.dumps(files), json.dumps(_LINKS)]
    target = ensure_directory("roots") / f"{suite}-{compute_digest(parts)}"

    def build(folder: Path) -> None:
        log = ensure_directory("logs") / f"root-{target.name}.log"
        print(f"installing {suite} for containers (once, 1 to 3 minutes; log: {log})", flush=True)
        install_debian(suite, packages, folder, log)
        write_files_and_links(folder, files, _LINKS)

    return ensure_folder(target, build)


def _wait_until_booted(owner: subprocess.Popen[bytes], name: str, log: Path) -> int:
    """Wait until systemd has nothing left to start, and return the process id of the container's systemd."""
    deadline = time.monotonic() + _BOOT_TIMEOUT
    while time.monotonic() < deadline and owner.poll() is None:
        time.sleep(0.05)
        leader = _find_systemd(owner.pid)
        if leader is None:
            continue
        done = Container(name, leader).run("systemctl is-system-running", check=False)
        state = done.stdout.strip()
        if state == "running":
            return leader
        if state == "degraded":
            failed = Container(name, leader).run("systemctl --failed --plain --no-legend").stdout
            raise VepycError(f"container {name}: a unit failed at boot: {failed}")
    raise VepycError(f"container {name} has not booted; see {log}")


def _find_systemd(owner: int) -> int | None:
    """Return the process id of the container's systemd; None before systemd-nspawn has started it."""
    for nspawn in _child_processes(owner):
        for child in _child_processes(nspawn):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return child
    return None


def _child_processes(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _remove_control_groups(name: str) -> None:
    for tree in Path("/sys/fs/cgroup").glob(f"**/vepyc-{name}"):
        for path in sorted(tree.glob("**/"), reverse=True):
            path.rmdir()
