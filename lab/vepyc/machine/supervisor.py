# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that owns one QEMU: it starts QEMU, patches the kernel, and starts QEMU again after a reboot.

Run as `python -m vepyc.machine.supervisor RUN_DIRECTORY`; it goes into the background by itself. It ends when the guest
powers off or when it gets SIGTERM, and takes its directory with it, unless the machine was stopped to be started again.
If it dies in any other way, the kernel kills QEMU.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from ..epyc import acpi, kernel_addresses, kernel_patch, smbios
from ..epyc.shapes import get_shape
from ..errors import VepycError
from ..paths import run_tool
from . import qemu_arguments, uefi
from .firmware import Firmware
from .gdb import Gdb
from .qmp import Qmp
from .run_directory import RunDirectory
from .sockets import JsonLines, wait_for_server

_PR_SET_PDEATHSIG = 1
_QEMU_START_SECONDS = 30


class Supervisor:
    """One machine, from its first power-on to its end."""

    def __init__(self, run: RunDirectory) -> None:
        self.run_dir = run
        self.config = run.read_config()
        self.shape = self.unchanged_shape = get_shape(self.config.shape)
        self.image = Path(self.config.image)
        self.args = self._build_qemu_arguments()
        # A machine that was stopped, or was killed with its computer, already has a disk.
        self.had_disk = run.disk.exists()
        self.disk = Path("disk.qcow2") if self.had_disk else self._make_disk()
        self.process: subprocess.Popen[bytes] | None = None
        self.patch_error: Exception | None = None
        self.firmware = Firmware(run, self.unchanged_shape, self.config.bmc, self.config.bios)
        self.control = socket.socket(socket.AF_UNIX)
        self.control.bind("control.new")
        self.control.listen()
        # Renamed only now, so that a process that finds the socket can connect to it.
        os.rename("control.new", "control.sock")

    def _build_qemu_arguments(self) -> list[str]:
        """Return QEMU's arguments for the present shape, and write the files that they name."""
        smbios.write_structure_files(self.shape, Path())
        uefi.write_missing_files(self.shape, Path())
        return qemu_arguments.build_machine_args(self.shape, acpi.compile_ssdt(self.shape, Path()).name)

    def _make_disk(self) -> Path:
        """Create an empty overlay on the image, or on the frozen disk of a saved state."""
        if self.config.snapshot:
            below, form = Path(self.config.snapshot, "disk.qcow2"), "qcow2"
        else:
            below, form = self.image / "disk.raw", "raw"
        run_tool(["qemu-img", "create", "-q", "-f", "qcow2", "-F", form, "-b", str(below), "disk.qcow2"])
        return Path("disk.qcow2")

    def run_until_power_off(self) -> None:
        """Run the machine until it powers itself off; with a BMC, until this process gets SIGTERM."""
        if self.config.snapshot and not self.had_disk:
            self._start_qemu(Path(self.config.snapshot, "state"))
        else:
            self._boot_from_disk()
        while True:
            with selectors.DefaultSelector() as selector:
                selector.register(self.control, selectors.EVENT_READ)
                if self.process:
                    selector.register(self.qmp.lines.connection, selectors.EVENT_READ)
                # The timeout is for the patching thread, which reports by setting patch_error.
                ready = {key.fileobj for key, _ in selector.select(timeout=0.5)}
            if self.patch_error:
                raise self.patch_error
            if self.control in ready:
                self._answer_request()
            if self.process and self.qmp.lines.connection in ready and not self._read_event():
                if self.qmp.last_shutdown_reason() == "guest-reset":
                    print("the guest reboots", flush=True)
                    self._boot_from_disk()
                else:
                    self.power_off()
                    if not self.firmware.note_power_loss():
                        return

    def _read_event(self) -> bool:
        """Read one event of QEMU; return False if QEMU has ended."""
        try:
            self.qmp.receive_event()
        except (VepycError, ConnectionError):
            return False
        return True

    def _boot_from_disk(self) -> None:
        """Power the machine off, if it runs, and boot it from its disk with its present BIOS settings."""
        self.power_off()
        shape = self.firmware.apply_boot()
        if shape is None:
            print("the machine hangs in its POST", flush=True)
            return
        self.shape = shape
        self.args = self._build_qemu_arguments()
        self._start_qemu()

    def _start_qemu(self, state: Path | None = None) -> None:
        """Start QEMU from a saved state, or from the disk and then patch the kernel."""
        for name in ("qmp.sock", "gdb.sock"):
            Path(name).unlink(missing_ok=True)
        command = [qemu_arguments.QEMU, *self.args, *qemu_arguments.build_run_args(self.disk, self.config.port)]
        command += qemu_arguments.build_incoming_args(state) if state else qemu_arguments.build_gdb_args()
        print("+", *command, flush=True)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
        self.qmp = Qmp(self._connect_to_qemu("qmp.sock"))
        if state:
            self.qmp.wait_until_loaded()
            self.qmp.execute("cont")
        else:
            threading.Thread(target=self._patch_kernel, daemon=True).start()

    def _patch_kernel(self) -> None:
        """Install the hooks as soon as the kernel runs; in a thread, so that a machine stuck in GRUB can be ended."""
        process, shape = self.process, self.shape
        try:
            start = time.monotonic()
            release = (self.image / "release").read_text().strip()
            sites = kernel_addresses.find_kernel_addresses((self.image / "vmlinux").read_bytes(), release)
            kernel_patch.patch_running_kernel(Gdb(self._connect_to_qemu("gdb.sock")), shape, sites)
            print(f"kernel patched {time.monotonic() - start:.1f} s after power-on", flush=True)
        except (VepycError, OSError) as error:
            # If the machine was switched off while it booted, the error is not one of the patch.
            if process is self.process:
                self.patch_error = error

    def _connect_to_qemu(self, name: str) -> socket.socket:
        """Connect to one of QEMU's sockets."""
        assert self.process is not None
        return wait_for_server(Path.cwd() / name, self.process, _QEMU_START_SECONDS)

    def power_off(self) -> None:
        """Cut the power."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def _answer_request(self) -> None:
        """Execute a request of a command, and send the result or the error."""
        connection, _ = self.control.accept()
        with connection:
            lines = JsonLines(connection)
            try:
                reply = self._execute_request(lines.receive_message())
            except VepycError as error:
                reply = {"error": str(error)}
            try:
                lines.send_message(reply)
            except OSError as error:
                print("the command went away before its answer:", error, flush=True)

    def _execute_request(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "hello":
            # Requests are answered only once the machine runs, so any answer says that it does.
            return {}
        if request["do"] in ("power-cycle", "power-on"):
            self._boot_from_disk()
        elif request["do"] == "power-off":
            self.power_off()
            self.firmware.note_power_loss()
        elif request["do"] == "save":
            self._save_state(Path(request["target"]))
        elif not self.firmware.handle_request(request):
            raise VepycError(f"the supervisor does not know the request {request['do']!r}")
        return {}

    def _save_state(self, target: Path) -> None:
        """Save the machine's memory and disk, both of the same moment, into ``target``; then let the machine run on."""
        if self.shape != self.unchanged_shape:
            raise VepycError("this machine is not as its shape any more, because its BIOS settings were changed")
        self.qmp.execute("stop")
        try:
            self.qmp.save_state(Path("state"))
            shutil.copy(self.disk, target / "disk.qcow2")
            shutil.move("state", target / "state")
        finally:
            self.qmp.execute("cont")


def _die_with_parent() -> None:
    """Make the kernel kill this process when the supervisor ends for any reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _raise_system_exit(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _detach_from_caller() -> None:
    """Continue in a background process of a session of its own, so that the caller need not wait for it."""
    if os.fork():
        os._exit(0)
    os.setsid()


def _run_machine(run: RunDirectory) -> None:
    """Run the machine until it powers itself off or this process gets SIGTERM; end QEMU in any case."""
    supervisor = Supervisor(run)
    try:
        supervisor.run_until_power_off()
    except SystemExit:
        print("told to end", flush=True)
    finally:
        supervisor.power_off()


def main() -> None:
    """Supervise the machine whose run directory is the argument."""
    run = RunDirectory(Path(sys.argv[1]))
    _detach_from_caller()
    with run.lock.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        run.pid.write_text(f"{os.getpid()}\n")
        signal.signal(signal.SIGTERM, _raise_system_exit)
        os.chdir(run.path)
        try:
            _run_machine(run)
        except (VepycError, OSError) as error:  # a QEMU that ends at once causes a broken pipe
            # The directory stays, because the waiting command reads the error from it, and people read the logs.
            run.error.write_text(f"{error}; the end of its log:\n{run.log.read_text()[-1000:]}\n")
            raise SystemExit(1) from None
        if not run.stopped.exists():
            run.remove()


if __name__ == "__main__":
    main()
