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
from .guest import RELEASES, get_release
from .image import ensure_image
from .llama.delivery import bring_llama, made_meanwhile
from .machine.run_directory import RunDir
from .machine.running import Machine
from .machine.saved_states import snapshot_dir, take_snapshot
from .machine.start import start, up


def _up(args: argparse.Namespace) -> None:
    was_up = RunDir.of(args.name or args.shape).alive()
    begun = time.monotonic()
    with made_meanwhile() if args.llama else contextlib.nullcontext():
        machine = up(args.shape, args.name, args.kernel, args.port, args.cold, bmc=args.bmc, bios=_settings(args.bios))
    how = "was already up" if was_up else f"is up after {time.monotonic() - begun:.1f} s"
    if args.llama:
        bring_llama(machine)
    print(f"{machine.name} {how}: ssh -p {machine.port} -i {machine.ssh_key} root@127.0.0.1")
    if args.bmc:
        print(f"its BMC: {machine.bmc['url']}, user {machine.bmc['user']}; password and CA: {machine.run_dir.bmc}")


def _settings(text: str) -> dict[str, bool | int]:
    """BIOS settings as people write them: nps=1,smt=on."""
    words = {"on": True, "off": False}
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name: words[value] if value in words else int(value) for name, value in pairs}
    except ValueError:
        raise VepycError(f"cannot read {text!r} as BIOS settings; write them as nps=1,smt=on") from None


def _down(args: argparse.Namespace) -> None:
    if args.all == bool(args.name):
        raise VepycError("name one machine, or say --all")
    found = RunDir.all() if args.all else [RunDir.of(args.name)]
    for run_dir in found:
        if not run_dir.path.exists():
            raise VepycError(f"there is no machine {args.name!r}; vepyc status lists those that run")
        if run_dir.alive():
            Machine(run_dir).down()
        else:
            run_dir.stop()
        print(f"{run_dir.path.name} is down")


def _stop(args: argparse.Namespace) -> None:
    Machine.find(args.name).stop()
    print(f"{args.name} is stopped; its disk is kept: vepyc start {args.name}")


def _start(args: argparse.Namespace) -> None:
    was_up = RunDir.of(args.name).alive()
    begun = time.monotonic()
    machine = start(args.name)
    how = "was already up" if was_up else f"is up after {time.monotonic() - begun:.1f} s"
    if args.llama:
        bring_llama(machine)
    print(f"{machine.name} {how}: ssh -p {machine.port} -i {machine.ssh_key} root@127.0.0.1")


def _ssh(args: argparse.Namespace) -> None:
    machine = Machine.find(args.name)
    os.chdir(machine.run_dir.path)
    command = machine.ssh_command()
    if args.command:
        # Joined by spaces for the guest's shell, which is what ssh itself does.
        command.append(" ".join(args.command))
    os.execvp(command[0], command)


def _status(args: argparse.Namespace) -> None:
    found = [RunDir.of(args.name)] if args.name else RunDir.all()
    alive = [run_dir for run_dir in found if run_dir.alive()]
    for run_dir in alive:
        machine = Machine(run_dir)
        how = "from its snapshot" if machine.resumed else "from disk"
        pid = run_dir.pid.read_text().strip()
        bmc = f", BMC {machine.bmc['url']} ({machine.bmc['vendor']})" if run_dir.bmc.exists() else ""
        print(
            f"{machine.name}: {machine.shape}, kernel {machine.kernel}, port {machine.port}, started {how}, pid {pid}"
            f"{bmc}"
        )
    for run_dir in set(found) - set(alive):
        name = run_dir.path.name
        if run_dir.stopped.exists():
            print(f"{name}: stopped; vepyc start {name} boots it from its disk")
        elif run_dir.path.exists():
            reason = run_dir.error.read_text().strip() if run_dir.error.exists() else "its supervisor was killed"
            ways = f"vepyc start {name} boots it from its disk, " if run_dir.has_bootable_disk() else ""
            print(f"{name}: dead ({reason}); {ways}vepyc down {name} clears it away")
    if args.name and not alive:
        raise VepycError(f"machine {args.name!r} is not running; start it with: vepyc up")


def _list(_args: argparse.Namespace) -> None:
    running: dict[str, list[str]] = {}
    for run_dir in RunDir.all():
        if run_dir.alive():
            running.setdefault(run_dir.read_config().shape, []).append(run_dir.path.name)
    for shape in SHAPES.values():
        saved = [release.kernel for release in RELEASES.values() if snapshot_dir(shape, release).exists()]
        print(
            f"{shape.name:<11} {shape.cpus:>3} CPUs, {shape.sockets} x {shape.l3_domains} L3 domains of"
            f" {shape.l3_mib} MiB, {shape.nodes} nodes, {shape.memory_mib} MiB, port {shape.port};"
            f" snapshots: {', '.join(saved) or 'none'}; running: {', '.join(running.get(shape.name, [])) or 'none'}"
        )


def _snapshot(args: argparse.Namespace) -> None:
    machine = Machine.find(args.name)
    print(take_snapshot(machine, get_shape(machine.shape), get_release(machine.kernel), replace=True))


def _image(args: argparse.Namespace) -> None:
    print(ensure_image(get_release(args.kernel)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vepyc", description="Virtual EPYC servers on a stock kernel.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("up", help="start a machine, and build or save whatever it needs first")
    command.add_argument("shape", help=", ".join(SHAPES))
    command.add_argument("--name", help="name of the machine (default: the shape)")
    command.add_argument("--kernel", default="6.12", help="kernel of the guest: 6.12 (default) or 6.1")
    command.add_argument("--port", type=int, help="loopback port for ssh (default: the shape's own)")
    command.add_argument("--cold", action="store_true", help="boot from disk even where a snapshot exists")
    command.add_argument("--bmc", metavar="VENDOR", help=f"with a BMC in front of it: {', '.join(PERSONALITIES)}")
    command.add_argument(
        "--bios", default="", metavar="NAME=VALUE,...", help="with these settings: nps=1,smt=on,boost=off,dimms=11"
    )
    command.add_argument("--llama", action="store_true", help="with a llama-server and a small model on its disk")
    command.set_defaults(function=_up)

    command = commands.add_parser("down", help="end a machine; its disk goes with it")
    command.add_argument("name", nargs="?")
    command.add_argument("--all", action="store_true", help="every machine")
    command.set_defaults(function=_down)

    command = commands.add_parser("stop", help="switch a machine off, and keep its disk")
    command.add_argument("name")
    command.set_defaults(function=_stop)

    command = commands.add_parser("start", help="boot a machine from the disk that it had when it was switched off")
    command.add_argument("name")
    command.add_argument("--llama", action="store_true", help="with a llama-server and a small model on its disk")
    command.set_defaults(function=_start)

    command = commands.add_parser("ssh", help="open a shell in a machine, or run a command there")
    command.add_argument("name")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command.set_defaults(function=_ssh)

    command = commands.add_parser("status", help="say which machines run")
    command.add_argument("name", nargs="?")
    command.set_defaults(function=_status)

    command = commands.add_parser("list", help="list the shapes, and what is saved and running of each")
    command.set_defaults(function=_list)

    command = commands.add_parser("snapshot", help="save the state of a machine that was booted from disk")
    command.add_argument("name", metavar="SHAPE", help="name of the machine, by default that of its shape")
    command.set_defaults(function=_snapshot)

    command = commands.add_parser("image", help="build the base image")
    command.add_argument("--kernel", default="6.12", help="kernel of the guest: 6.12 (default) or 6.1")
    command.set_defaults(function=_image)
    return parser


def main() -> None:
    """Run one command; a failure is one sentence on stderr and exit code 1."""
    args = _parser().parse_args()
    try:
        args.function(args)
    except VepycError as error:
        print(f"vepyc: {error}", file=sys.stderr)
        raise SystemExit(1) from None
