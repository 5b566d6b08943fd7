# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: a stock Debian with its own systemd on this machine's kernel and processor.

They are for what must run at full speed, or many times over, and does not ask for an EPYC. A container has a loopback
network only, and cables to others where a test lays them; and a disk that is thrown away with it. Commands and Ansible
come in by its namespaces.
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
from .debian import bootstrap, put
from .errors import GuestError, VepycError
from .paths import digest, directory, locked, ssh_key
from .quick_python import python_files

SUITE = "trixie"
PACKAGES = (
    *("dbus", "iproute2", "openssh-server", "procps", "python3", "python3-apt", "sudo", "systemd-sysv"),
    # What llama.cpp is built with. make is only recommended by cmake, and mmdebstrap takes no recommendations.
    *("ccache", "cmake", "g++", "make"),
)
# What a container cannot do, and a unit that would make `systemctl is-system-running` say "degraded".
_MASKED_UNITS = ("systemd-modules-load.service", "apt-daily.timer", "apt-daily-upgrade.timer", "ssh.service")
_LINKS = {**{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED_UNITS}, **python_files.SPEEDUP_LINKS}
_FILES = {
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/machine-id": "",  # each container makes one
    "etc/resolv.conf": "",
    # The folder is otherwise made by sshd's unit, which is masked: each connection brings its own sshd.
    "etc/tmpfiles.d/vepyc.conf": "d /run/sshd 0755\n",
}
_BOOT_TIMEOUT = 60

# $1: the name, $2: the root, $3: the folder of this container; then options for systemd-nspawn. On a machine without
# systemd nobody gives the container a control group of its own, so one is made here, in every hierarchy that it uses.
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


# Takes connections at the socket of the first argument, and passes them on to the port of the second one.
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
    """A container that has booted; `container` makes these."""

    def __init__(self, name: str, leader: int) -> None:
        self.name = name
        #: Its first process, as this machine numbers it.
        self.leader = str(leader)
        self._inside = ["nsenter", f"--target={leader}", "--all"]

    def run(
        self, command: str, check: bool = True, input: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the container as root. With `check`, a non-zero exit code raises GuestError."""
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # The container's first process began in `/`, which is where commands begin, too.
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
        """Take away what only these containers have to be quicker, for measurements of Ansible."""
        self.run(python_files.REMOVE_SPEEDUPS)

    def connect_cable(self, other: Container, own_address: str, other_address: str) -> None:
        """Lay a cable to another container: both get an interface `cable`, with these addresses, as 10.8.0.1/24."""
        # `ip` of this machine, which sees the processes of both, in the network of this container.
        ends = ["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", other.leader]
        done = subprocess.run(["nsenter", self._inside[1], "--net", "ip", *ends], capture_output=True, text=True)
        if done.returncode:
            text = f"no cable from {self.name} to {other.name}: {done.stderr.strip()}"
            raise GuestError(f"{text}; lab/README.md lists the packages that the lab needs")
        for box, address in ((self, own_address), (other, other_address)):
            box.run(f"ip address add {address} dev cable && ip link set cable up")

    @contextlib.contextmanager
    def published_port(self, port: int) -> Iterator[int]:
        """Have a port of its loopback on a free one of this machine's loopback as long as the block lasts."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            number = listening.fileno()
            # The socket stays one of this machine, whoever accepts at it.
            words = [sys.executable, "-c", _RELAY, str(number), str(port)]
            relay = subprocess.Popen(["nsenter", self._inside[1], "--net", *words], pass_fds=[number])
            try:
                yield int(listening.getsockname()[1])
            finally:
                relay.terminate()
                relay.wait()

    def inventory_variables(self, wrapper: Sequence[str] = ()) -> dict[str, str]:
        """The variables with which Ansible reaches the container: ssh, though no network leads there.

        ``through`` is a command in the container that starts another one, as nsenter.
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
            # Ansible shares connections by this name, so a later container of the same name must have another one.
            "ansible_host": f"{self.name}-{self.leader}",
            "ansible_user": "root",
            # The Python that is there (ssh.py) is not where ``through`` leads; by another path, one starts anew.
            "ansible_python_interpreter": "/bin/python3" if wrapper else "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(ssh_key()),
            "ansible_ssh_common_args": " ".join(f"-o {key}={value}" for key, value in settings.items()),
        }


@contextlib.contextmanager
def running_container(
    name: str, binds: Mapping[Path, str] | None = None, writable: Mapping[Path, str] | None = None
) -> Iterator[Container]:
    """Start a container, and end it when the block ends.

    ``binds`` are folders of this machine to read, by where they appear, and ``writable`` those to change.

    Whoever asks for the name of one that runs waits for its end.
    """
    if os.geteuid() != 0:
        raise VepycError("containers need root, because their namespaces do; run this command as root")
    root = ensure_container_root()
    with locked(f"container-{name}"):
        folder = directory("containers", name)
        shutil.rmtree(folder)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True)
        log = directory("logs") / f"container-{name}.log"
        # When this process is killed, process 1 of the namespace is too, and with it everything that runs in there.
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
            # No shutdown is needed: nothing in there is kept. When process 1 of a namespace ends, all others do.
            for process in _child_processes(owner.pid):
                os.kill(process, signal.SIGKILL)
            owner.wait()
            _remove_control_groups(name)
            shutil.rmtree(folder)


def ensure_container_root() -> Path:
    """The Debian that every container starts from; built first when it is missing."""
    files = {
        **_FILES,
        **python_files.speedup_files(),
        "root/.ssh/authorized_keys": ssh_key().with_suffix(".pub").read_text(),
    }
    parts = [SUITE, *PACKAGES, json.dumps(files), json.dumps(_LINKS)]
    target = directory("roots") / f"{SUITE}-{digest(parts)}"

    def build(folder: Path) -> None:
        log = directory("logs") / f"root-{target.name}.log"
        print(f"installing {SUITE} for containers (once, 1 to 3 minutes; log: {log})", flush=True)
        bootstrap(SUITE, PACKAGES, folder, log)
        put(folder, files, _LINKS)

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
    """The first process of the container, once it is systemd and no longer the code that prepares for it."""
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
