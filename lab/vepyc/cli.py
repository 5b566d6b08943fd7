# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from .bmc import PERSONALITIES
from .epyc.shapes import SHAPES, get_shape
from .errors import VepycError
from .images.guest_image import ensure_image
from .images.guest_system import RELEASES, get_release
from .llama.delivery import built_in_background, install_llama
from .machine.run_directory import RunDirectory
from .machine.running import Machine
from .machine.saved_states import snapshot_dir, take_snapshot
from .machine.start import start_again, start_machine

KERNEL_HELP = f"kernel of the guest: {', '.join(RELEASES)} (default: 6.12)"


def _run_up(args: argparse.Namespace) -> None:
    was_up = RunDirectory.of_machine(args.name or args.shape).is_alive()
    begun = time.monotonic()
    with built_in_background() if args.llama else contextlib.nullcontext():
        machine = start_machine(
            args.shape, args.name, args.kernel, args.port, args.cold, bmc=args.bmc, bios=_parse_bios_settings(args.bios)
        )
    how = "was already up" if was_up else f"is up after {time.monotonic() - begun:.1f} s"
    if args.llama:
        install_llama(machine)
    print(f"{machine.name} {how}: ssh -p {machine.port} -i {machine.ssh_key} root@127.0.0.1")
    if args.bmc:
        access = machine.bmc_access
        print(f"its BMC: {access['url']}, user {access['user']}; password and CA: {machine.run_dir.bmc}")


def _parse_bios_settings(text: str) -> dict[str, bool | int]:
    """Parse BIOS settings as the command line takes them: nps=1,smt=on."""
    words = {"on": True, "off": False}
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name: words[value] if value in words else int(value) for name, value in pairs}
    except ValueError:
        raise VepycError(f"cannot read {text!r} as BIOS settings; write them as nps=1,smt=on") from None


def _run_down(args: argparse.Namespace) -> None:
    if args.all == bool(args.name):
        raise VepycError("name one machine, or say --all")
    directories = RunDirectory.list_all() if args.all else [RunDirectory.of_machine(args.name)]
    for run_dir in directories:
        if not run_dir.path.exists():
            raise VepycError(f"there is no machine {args.name!r}; vepyc status lists those that run")
        if run_dir.is_alive():
            Machine(run_dir).discard()
        else:
            run_dir.end_and_remove()
        print(f"{run_dir.path.name} is down")


def _run_stop(args: argparse.Namespace) -> None:
    Machine.find_running(args.name).shut_down()
    print(f"{args.name} is stopped; its disk is kept: vepyc start {args.name}")


def _run_start(args: argparse.Namespace) -> None:
    was_up = RunDirectory.of_machine(args.name).is_alive()
    begun = time.monotonic()
    machine = start_again(args.name)
    how = "was already up" if was_up else f"is up after {time.monotonic() - begun:.1f} s"
    if args.llama:
        install_llama(machine)
    print(f"{machine.name} {how}: ssh -p {machine.port} -i {machine.ssh_key} root@127.0.0.1")


def _run_ssh(args: argparse.Namespace) -> None:
    machine = Machine.find_running(args.name)
    os.chdir(machine.run_dir.path)
    command = machine.ssh_command()
    if args.command:
        # Joined by spaces for the guest's shell, which is what ssh itself does.
        command.append(" ".join(args.command))
    os.execvp(command[0], command)


def _run_status(args: argparse.Namespace) -> None:
    directories = [RunDirectory.of_machine(args.name)] if args.name else RunDirectory.list_all()
    alive = [run_dir for run_dir in directories if run_dir.is_alive()]
    for run_dir in alive:
        machine = Machine(run_dir)
        how = "from its snapshot" if machine.resumed else "from disk"
        pid = run_dir.pid.read_text().strip()
        bmc = f", BMC {machine.bmc_access['url']} ({machine.bmc_access['vendor']})" if run_dir.bmc.exists() else ""
        print(
            f"{machine.name}: {machine.shape}, kernel {machine.kernel}, port {machine.port}, started {how}, pid {pid}"
            f"{bmc}"
        )
    for run_dir in set(directories) - set(alive):
        name = run_dir.path.name
        if run_dir.stopped.exists():
            print(f"{name}: stopped; vepyc start {name} boots it from its disk")
        elif run_dir.path.exists():
            reason = run_dir.error.read_text().strip() if run_dir.error.exists() else "its supervisor was killed"
            ways = f"vepyc start {name} boots it from its disk, " if run_dir.has_bootable_disk() else ""
            print(f"{name}: dead ({reason}); {ways}vepyc down {name} clears it away")
    if args.name and not alive:
        raise VepycError(f"machine {args.name!r} is not running; start it with: vepyc up")


def _run_list(_args: argparse.Namespace) -> None:
    running: dict[str, list[str]] = {}
    for run_dir in RunDirectory.list_all():
        if run_dir.is_alive():
            running.setdefault(run_dir.read_config().shape, []).append(run_dir.path.name)
    for shape in SHAPES.values():
        saved = [release.kernel for release in RELEASES.values() if snapshot_dir(shape, release).exists()]
        print(
            f"{shape.name:<11} {shape.cpus:>3} CPUs, {shape.sockets} x {shape.l3_domains} L3 domains of"
            f" {shape.l3_mib} MiB, {shape.nodes} nodes, {shape.memory_mib} MiB, port {shape.port};"
            f" snapshots: {', '.join(saved) or 'none'}; running: {', '.join(running.get(shape.name, [])) or 'none'}"
        )


def _run_snapshot(args: argparse.Namespace) -> None:
    machine = Machine.find_running(args.name)
    print(take_snapshot(machine, get_shape(machine.shape), get_release(machine.kernel), replace=True))


def _run_image(args: argparse.Namespace) -> None:
    print(ensure_image(get_release(args.kernel)))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vepyc", description="Virtual EPYC servers on a stock kernel.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("up", help="start a machine, and build or save whatever it needs first")
    command.add_argument("shape", help=", ".join(SHAPES))
    command.add_argument("--name", help="name of the machine (default: the shape)")
    command.add_argument("--kernel", default="6.12", help=KERNEL_HELP)
    command.add_argument("--port", type=int, help="loopback port for ssh (default: the shape's own)")
    command.add_argument("--cold", action="store_true", help="boot from disk even where a snapshot exists")
    command.add_argument("--bmc", metavar="VENDOR", help=f"with a BMC in front of it: {', '.join(PERSONALITIES)}")
    command.add_argument(
        "--bios", default="", metavar="NAME=VALUE,...", help="with these settings: nps=1,smt=on,boost=off,dimms=11"
    )
    command.add_argument("--llama", action="store_true", help="with a llama-server and a small model on its disk")
    command.set_defaults(function=_run_up)

    command = commands.add_parser("down", help="end a machine; its disk goes with it")
    command.add_argument("name", nargs="?")
    command.add_argument("--all", action="store_true", help="every machine")
    command.set_defaults(function=_run_down)

    command = commands.add_parser("stop", help="switch a machine off, and keep its disk")
    command.add_argument("name")
    command.set_defaults(function=_run_stop)

    command = commands.add_parser("start", help="boot a machine from the disk that it had when it was switched off")
    command.add_argument("name")
    command.add_argument("--llama", action="store_true", help="with a llama-server and a small model on its disk")
    command.set_defaults(function=_run_start)

    command = commands.add_parser("ssh", help="open a shell in a machine, or run a command there")
    command.add_argument("name")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command.set_defaults(function=_run_ssh)

    command = commands.add_parser("status", help="say which machines run")
    command.add_argument("name", nargs="?")
    command.set_defaults(function=_run_status)

    command = commands.add_parser("list", help="list the shapes, and what is saved and running of each")
    command.set_defaults(function=_run_list)

    command = commands.add_parser("snapshot", help="save the state of a machine that was booted from disk")
    command.add_argument("name", metavar="SHAPE", help="name of the machine, by default that of its shape")
    command.set_defaults(function=_run_snapshot)

    command = commands.add_parser("image", help="build the base image")
    command.add_argument("--kernel", default="6.12", help=KERNEL_HELP)
    command.set_defaults(function=_run_image)
    return parser


def main() -> None:
    """Run one command; a failure is one sentence on stderr and exit code 1."""
    args = _build_parser().parse_args()
    try:
        args.function(args)
    except VepycError as error:
        print(f"vepyc: {error}", file=sys.stderr)
        raise SystemExit(1) from None
