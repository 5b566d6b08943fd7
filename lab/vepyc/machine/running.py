# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running machine: commands in its guest, reboots, BIOS settings, and its end."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import time
import uuid
from pathlib import Path

from ..errors import GuestError, VepycError
from ..images.guest_system import REMOVE_SPEEDUPS, SSH_IS_UP, STOP_UDEV
from ..paths import ensure_ssh_key
from ..quick_python.bytecode_store import BytecodeStore
from .run_directory import RunDirectory

_SSH_FAILED = 255
_PANIC = "Kernel panic - not syncing"


class Machine:
    """A machine that has a supervisor. `start_machine` starts machines; `Machine.find_running` finds a running one."""

    def __init__(self, run_dir: RunDirectory) -> None:
        config = run_dir.read_config()
        self.run_dir = run_dir
        self.name = config.name
        self.shape = config.shape
        self.kernel = config.kernel
        self.port = config.port
        self.resumed = config.snapshot is not None
        self.ssh_key = ensure_ssh_key()

    @classmethod
    def find_running(cls, name: str) -> Machine:
        """Return the running machine of that name; an error if it does not run."""
        run_dir = RunDirectory.of_machine(name)
        if not run_dir.is_alive():
            raise VepycError(f"machine {name!r} is not running; start it with: vepyc up")
        return cls(run_dir)

    @property
    def console(self) -> Path:
        """The path of the log of the guest's serial console."""
        return self.run_dir.console

    def ssh_command(self, *options: str) -> list[str]:
        """Return the ssh command line that reaches the guest; it has to be run in the machine's run directory."""
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": "60",
            "ControlMaster": "auto",
            "ControlPath": "ssh.sock",
            "ControlPersist": "600",
            # Every image has its own host key and the connection never leaves this machine.
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
        }
        command = ["ssh", "-F", "none", "-p", str(self.port), "-i", str(self.ssh_key)]
        for key, value in settings.items():
            command += ["-o", f"{key}={value}"]
        return [*command, *options, "root@127.0.0.1"]

    def run(
        self, command: str, check: bool = True, input: str | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the guest as root. With `check`, a non-zero exit code raises GuestError."""
        try:
            done = subprocess.run(
                [*self.ssh_command(), command],
                cwd=self.run_dir.path,
                input=input or "",
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise GuestError(f"{self.name}: no end after {timeout:.0f} s: {command}") from None
        except FileNotFoundError:
            raise VepycError(f"machine {self.name!r} is gone, or ssh is not installed") from None
        if done.returncode == _SSH_FAILED:
            raise GuestError(f"{self.name}: ssh failed: {done.stderr.strip()}; {self._log_hint()}")
        if check and done.returncode:
            raise GuestError(
                f"{self.name}: exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}".rstrip()
            )
        return done

    @property
    def boot_count(self) -> int:
        """How many boots of this machine have started their ssh server, not counting boots before its saved state."""
        return self.console.read_text(errors="replace").count(SSH_IS_UP)

    def reboot(self, timeout: float = 1200) -> None:
        """Reboot from inside the guest and wait until the boot is complete."""
        before = self.boot_count
        # The connection may close before the command's exit code has arrived.
        with contextlib.suppress(GuestError):
            self.run("systemctl reboot")
        self.wait_for_another_boot(before, timeout)

    def power_cycle(self, timeout: float = 1200) -> None:
        """Cut the power and switch it on again, without a shutdown; wait until the guest has booted from its disk."""
        before = self.boot_count
        self.run_dir.send_request("power-cycle", timeout=60)
        self.wait_for_another_boot(before, timeout)

    def set_bios(self, **settings: object) -> None:
        """Change BIOS settings (`vepyc.epyc.bios.KNOBS`) from the next boot on; with a BMC, only hardware."""
        self.run_dir.send_request("bios", timeout=60, settings=settings)

    @property
    def bmc_access(self) -> dict[str, str]:
        """`url`, `user`, `password`, `ca`, `fingerprint` and `vendor` of the BMC; an error if there is none."""
        try:
            return dict(json.loads(self.run_dir.bmc.read_text()))
        except FileNotFoundError:
            raise VepycError(f"{self.name!r} has no BMC; start it with: vepyc up ... --bmc dell") from None

    def set_bmc_faults(self, **faults: object) -> None:
        """Switch faults of the BMC on or off (`vepyc.bmc.Faults`)."""
        self.run_dir.send_request("bmc-faults", timeout=60, faults=faults)

    def discard(self) -> None:
        """End the machine and delete its disk."""
        # Without an open connection, the guest may no longer answer, and its bytecode is given up.
        if self._is_connected():
            self._bytecode_store().fetch_from_guest()
        self.disconnect()
        self.run_dir.end_and_remove()

    def shut_down(self, timeout: float = 180) -> None:
        """Shut the guest down and keep its disk, from which `start_again` boots it.

        The power of a guest that has not shut down in time is cut.
        """
        if self.run_dir.bmc.exists():
            raise VepycError(f"{self.name!r} has a BMC, whose settings end with it; take it down instead")
        if self._is_connected():
            self._bytecode_store().fetch_from_guest()
        self.run_dir.stopped.touch()
        # The connection may close before the command's exit code has arrived.
        with contextlib.suppress(GuestError):
            self.run("systemctl poweroff", timeout=60)
        deadline = time.monotonic() + timeout
        while self.run_dir.is_alive() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.disconnect()
        self.run_dir.end_supervisor()

    def disconnect(self) -> None:
        """Close the shared ssh connection."""
        if self._is_connected():
            command = self.ssh_command("-O", "exit")
            subprocess.run(command, cwd=self.run_dir.path, capture_output=True, check=False)

    def wait_until_resumed(self, timeout: float) -> None:
        """Wait until a guest from a saved state runs; its ssh server was up when the state was saved."""
        try:
            self.run_dir.send_request("hello", timeout)
        except VepycError:
            if self.run_dir.is_alive():
                raise
            raise VepycError(self._end_reason()) from None

    def wait_for_another_boot(self, before: int = 0, timeout: float = 1200) -> None:
        """Wait until more than ``before`` boots have started ssh, and systemd and udev are done; then end udev."""
        deadline = time.monotonic() + timeout
        while self.boot_count <= before:
            if not self.run_dir.is_alive():
                raise VepycError(self._end_reason())
            if _PANIC in self.console.read_text(errors="replace"):
                raise VepycError(f"the kernel of {self.name} panicked; the console log is {self.console}")
            if time.monotonic() > deadline:
                raise VepycError(f"{self.name} has no ssh after {timeout:.0f} s; the console log is {self.console}")
            time.sleep(0.1)
        self.disconnect()
        # One command waits for all: polling from here would cost an emulated guest a part of its boot time.
        settled = f"systemctl is-system-running --wait; udevadm settle; {STOP_UDEV}"
        self.run(settled, timeout=deadline - time.monotonic())

    def set_identity(self) -> None:
        """Set the guest's host name, its machine id, and after a resume its clock; send it the cached bytecode."""
        name = shlex.quote(self.name)
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, self.name).hex
        commands = [f"date -s @{time.time():.3f} >/dev/null"] if self.resumed else []
        commands.append(
            f"[ $(hostname) = {name} ] || {{ hostname {name}; echo {name} >/etc/hostname;"
            f" printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' {name} >/etc/hosts;"
            # journald goes on writing below the old id until a boot; the link lets journalctl find that. To restart
            # journald instead would take a second.
            f" ln -s $(cat /etc/machine-id) /run/log/journal/{identity}; echo {identity} >/etc/machine-id; }}"
        )
        self.run("; ".join(commands))
        self._bytecode_store().send_to_guest()

    def remove_speedups(self) -> None:
        """Remove what makes these guests faster than real hosts, before a measurement. A boot restores some of it."""
        self.run(REMOVE_SPEEDUPS)

    def _is_connected(self) -> bool:
        return (self.run_dir.path / "ssh.sock").exists()

    def _bytecode_store(self) -> BytecodeStore:
        return BytecodeStore(self.ssh_command(), self.run_dir.path, self.kernel)

    def _end_reason(self) -> str:
        """Return the sentence why the machine has ended; its directory may be removed while this is read."""
        with contextlib.suppress(FileNotFoundError):
            return f"{self.name}: {self.run_dir.error.read_text().strip()}"
        with contextlib.suppress(FileNotFoundError):
            return f"{self.name} was killed; the end of its log:\n{self.run_dir.log.read_text()[-1000:].strip()}"
        return f"{self.name} has been switched off"

    def _log_hint(self) -> str:
        return f"the console log is {self.console}" if self.run_dir.is_alive() else self._end_reason()
