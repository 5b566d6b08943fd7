# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters without a boot: what may be asked, and what the drop-in does in a real shell with a real sed.

update-grub is played by a few lines; tests/lab/test_kernel_cmdline.py has the real one, and a real boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils import (
    _bootloader,
    _cmdline,
    _command,
    _grub,
    _grubby,
    _knob_cmdline,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._cmdline_request import Request
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knob import Knob, converge
from ansible_collections.sovereign.epyc.plugins.module_utils._ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._store import Store
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils import hosts

INTENT = {"draft": {"ccds": 1}, "verify": {}, "housekeeping": {"cores": 1, "per": "node"}}


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    host = hosts.small(tmp_path)
    host.put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB")
    host.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 0)
    host.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", 0)
    host.put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro console=ttyS0 quiet")
    host.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"')
    host.put(_grub.UPDATE, "played by Boot")
    return host


class Boot:
    """Runs real shells, and plays update-grub."""

    def __init__(self, tree: hosts.Host) -> None:
        self.tree = tree
        self.grub = _grub.Grub(str(tree.root), self)
        self.ignores = ""
        self.fails = False
        self([_grub.UPDATE])

    def __call__(self, command: Sequence[str]) -> str:
        if command[0] != _grub.UPDATE:
            return _command.run(command)
        if self.fails:
            self.tree.put(f"{_grub.RESULT}.new", "half of it")
            raise TuningError("'update-grub' failed with exit code 1. It says: no space left on device")
        line = self.grub._collect(with_ours=True)
        if self.ignores:
            line = " ".join(word for word in _cmdline.split(line) if not word.startswith(self.ignores))
        self.tree.put(
            _grub.RESULT,
            "### BEGIN /etc/grub.d/10_linux ###\n"
            f"menuentry 'Debian' $id 'gnulinux-simple-1' {{\n\tlinux\t/boot/vmlinuz root=/dev/vda1 ro {line}\n"
            "}\nmenuentry 'rescue' $id 'gnulinux-6.12-recovery-1' {\n\tlinux\t/boot/vmlinuz ro single\n}\n"
            "### END /etc/grub.d/10_linux ###\n### BEGIN /etc/grub.d/40_custom ###\n\tlinux /other\n",
        )
        return ""


@pytest.fixture
def boot(tree: hosts.Host) -> Boot:
    return Boot(tree)


def knob(boot: Boot, *parameters: str, **more: Any) -> Knob:
    options = {"parameters": list(parameters), **more}
    return _knob_cmdline.CommandLine(Host(boot.tree.fs, INTENT), options, find=lambda fs: boot.grub)


def run(boot: Boot, one: Knob) -> Any:
    return converge([one], Ledger(Store(str(boot.tree.root)), boot.tree.fs))


def line(boot: Boot) -> str:
    return " ".join(boot.grub.entries()[0])


def files(boot: Boot) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in boot.tree.root.glob("**/*grub*/**/*") if path.is_file()}


# Asking


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("nohz_full={ccd1}", "8-15"),
        ("isolcpus=managed_irq,{l3:1,l3:3}", "managed_irq,4-7,12-15"),
        ("irqaffinity={housekeeping}", "0,4,8,12"),
        ("rcu_nocbs=1,{node3}", "1,12-15"),
        ("rcu_nocbs", ""),
        ('dyndbg="file a.c +p; file b.c +p"', '"file a.c +p; file b.c +p"'),
    ],
)
def test_cpus_in_braces_become_numbers(tree: hosts.Host, text: str, setting: str) -> None:
    request = Request(Host(tree.fs, INTENT), [text], [])
    assert request.settings == {text.partition("=")[0]: setting}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (["isolcpus=draft"], ["'draft'", "in braces", "isolcpus={draft,verify}"]),
        (["isolcpus=domain,0-3"], ["takes CPU 0 away"]),
        (["nohz_full={all}"], ["takes CPU 0 away"]),
        (["nohz_full=1-99"], ["CPU 16-99 is not on this host"]),
        (["nohz_full"], ["names no CPU"]),
        (["isolcpus=managed_irq"], ["names no CPU"]),
        (["a=1;2"], ["';'"]),
        (["isolcpus=1", "isolcpus=2"], ["more than once"]),
        (["nohz_full={ccd1"], ["not closed"]),
        (["nohz_full=ccd1}"], ["not opened"]),
        (["nohz_full={nobody}"], ["'nobody' names no CPUs"]),
        (["a=1 b=2"], ["more than one parameter"]),
        (["a=it's"], ['"\'"', "would not arrive"]),
        (["a=$b"], ["'$'"]),
        (["a=b\nc"], ["more than one parameter"]),
        (['a="b\nc"'], ["'\\n'"]),
        (["a=ü"], ["'ü'"]),
        (["=1"], ["no kernel parameter"]),
        ([""], ["no kernel parameter"]),
        (["--"], ["boot loader itself"]),
        (["root=/dev/sda"], ["boot loader itself"]),
        (["hugepagesz=4M"], ["no pages of that size", "2M, 1024M"]),
        (["hugepagesz=2M", "hugepages=4", "hugepagesz=2M"], ["given twice"]),
        (["hugepages=many"], ["say a count"]),
        (["hugepages=1,2"], ["say a count"]),
        (["hugepages=9:4"], ["no node 9"]),
        (["hugepages=1:600"], ["node 1 has 1024 MiB", "1200 MiB"]),
        (["hugepagesz=1G", "hugepages=2", "hugepagesz=2M", "hugepages=900"], ["3848 MiB of the 4096 MiB", "512 MiB"]),
        (["default_hugepagesz=1G", "hugepages=4"], ["4096 MiB of the 4096 MiB"]),
    ],
)
def test_refusals(tree: hosts.Host, parameters: list[str], words: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(Host(tree.fs, INTENT), parameters, [])
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("absent", "words"),
    [("quiet=1", "without a value"), ("nohz-full", "in parameters and in absent"), ("a b", "no kernel")],
)
def test_what_cannot_be_absent(tree: hosts.Host, absent: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Request(Host(tree.fs, INTENT), ["nohz_full=4"], [absent])


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("isolcpus=4", True),
        ("isolcpus=domain,4", True),
        ("isolcpus=nohz,domain,4", True),
        ("isolcpus=managed_irq,4", False),
        ("nohz_full=4", False),
    ],
)
def test_isolation_from_load_balancing_comes_with_its_hazard(tree: hosts.Host, text: str, warns: bool) -> None:
    assert bool(Request(Host(tree.fs, INTENT), [text], []).remarks) == warns


def test_nothing_asked_is_refused(boot: Boot) -> None:
    with pytest.raises(BadRequest, match="Nothing is asked"):
        knob(boot).wanted()


def test_a_line_that_the_kernel_would_cut_is_refused(boot: Boot) -> None:
    before = files(boot)
    with pytest.raises(BadRequest, match="cut off the rest"):
        run(boot, knob(boot, *(f"name{number}={'x' * 90}" for number in range(20))))
    assert files(boot) == before


# The drop-in


def test_parameters_are_merged_and_put_back(boot: Boot) -> None:
    before = files(boot)
    outcome = run(boot, knob(boot, "nohz_full={ccd1}", "console=tty0", "console=ttyS1", absent=["quiet"]))
    assert outcome.diff()["after"] == {
        "cmdline:nohz_full": "8-15",
        "cmdline:console": "console=tty0 console=ttyS1",
        "cmdline:quiet": None,
    }
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz_full=8-15", "console=tty0", "console=ttyS1"]
    assert outcome.remarks == [
        f"console is also set by /etc/default/grub, to 'ttyS0'. {_grub.DROP_IN} takes that out for as long as it is "
        "there."
    ]
    assert run(boot, knob(boot, "nohz_full=8-15")).changes == []
    # One owner for each name: what another request asks joins what is there.
    run(boot, knob(boot, "nohz-full=9", "new=1"))
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz-full=9", "console=tty0", "console=ttyS1", "new=1"]

    facts = knob(boot, "nohz_full=9").facts()
    assert facts["reboot_required"] is False  # nothing was read yet
    one = knob(boot, "nohz_full=9", absent=["root2"])
    run(boot, one)
    assert one.facts() == {
        "running": {"nohz_full": None, "root2": None},
        "configured": {"nohz_full": "9", "root2": None},
        "pending": ["nohz_full"],
        "reboot_required": True,
    }

    originals = {"console": "ttyS0", "quiet": "", "nohz_full": None, "new": None}
    boot.grub.change(originals)
    assert files(boot) == before


def test_a_file_changed_without_update_grub_is_no_peace(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    boot.tree.drop(_grub.DROP_IN)
    assert [change.address for change in run(boot, knob(boot, "nohz_full=9")).changes] == ["cmdline:nohz_full"]
    text = boot.tree.fs.read(_grub.RESULT)
    boot.tree.put(_grub.RESULT, text.replace("nohz_full=9", ""))
    assert [change.address for change in run(boot, knob(boot, "nohz_full=9")).changes] == ["cmdline:nohz_full"]
    assert "nohz_full=9" in line(boot)


def test_a_grub_cfg_that_does_not_carry_it_is_a_failure_that_changes_nothing(boot: Boot) -> None:
    before = files(boot)
    boot.ignores = "nohz_full"
    with pytest.raises(NotApplied, match=r"/boot/grub/grub.cfg does not carry it: wanted '9', found nothing.*put back"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_later_file_that_says_otherwise_is_named(boot: Boot) -> None:
    boot.tree.put(f"{_grub.FOLDER}/99-later.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=1"')
    boot([_grub.UPDATE])
    before = files(boot)
    with pytest.raises(NotApplied, match=r"grub.d/99-later.cfg, which is read after.*'nohz_full=9 nohz_full=1'"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_failed_update_grub_leaves_nothing_behind(boot: Boot) -> None:
    before = files(boot)
    boot.fails = True
    with pytest.raises(TuningError, match=r"no space left.*put back"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_drop_in_changed_by_hand_is_not_guessed_at(boot: Boot) -> None:
    boot.tree.put(_grub.DROP_IN, "# owns: {nonsense")
    with pytest.raises(TuningError, match="changed by hand"):
        boot.grub.change({"a": "1"})


def test_what_files_print_is_no_parameter(boot: Boot) -> None:
    boot.tree.put(f"{_grub.FOLDER}/10-talks.cfg", "echo hello=1")
    assert boot.grub.configured() == {"console": "ttyS0", "quiet": ""}


WORDS = st.sampled_from(
    [
        "quiet",
        "a",
        "a=1",
        "a-b=2",
        "a_b",
        "b=3",
        'foo="a b"',
        '"a=1 2"',
        '"foo=a b"',
        'foo="x a=1 y"',
        "c.d=*",
        "cxd",
        "ab=1",
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    foreign=st.lists(WORDS, max_size=6),
    default=st.lists(WORDS, max_size=3),
    gap=st.sampled_from([" ", "  ", "\t"]),
    owned=st.dictionaries(st.sampled_from(["a", "a_b", "c.d", "quiet"]), st.sampled_from([None, "", "9", '"x y"'])),
)
def test_ours_are_there_once_and_all_others_in_their_order(
    tree: hosts.Host, foreign: list[str], default: list[str], gap: str, owned: dict[str, str | None]
) -> None:
    tree.put(
        "/etc/default/grub",
        f"GRUB_CMDLINE_LINUX='{gap.join(foreign)}'\nGRUB_CMDLINE_LINUX_DEFAULT='{gap.join(default)}'",
    )
    tree.put(_grub.DROP_IN, _grub.drop_in(owned))
    words = _cmdline.split(_grub.Grub(str(tree.root))._collect(with_ours=True))

    def others(some: list[str]) -> list[str]:
        return [word for word in some if _cmdline.canonical(_cmdline.parse(word)[0]) not in owned]

    ours = [word for name, text in owned.items() if text is not None for word in _cmdline.words_of(name, text)]
    assert words == [*others(foreign), *ours, *others(default)]
    assert _grub.owned_by(_grub.drop_in(owned)) == owned


# grubby, by what it printed on other people's hosts


RECORDED = """index=0
kernel="/boot/vmlinuz-5.14.0-162.6.1.el9_1.x86_64"
args="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap rhgb quiet"
root="/dev/mapper/rhel-root"
initrd="/boot/initramfs-5.14.0-162.6.1.el9_1.x86_64.img"
title="Red Hat Enterprise Linux (5.14.0-162.6.1.el9_1.x86_64) 9.1 (Plow)"
id="4d684a4a6166439a867e701ded4f7e10-5.14.0-162.6.1.el9_1.x86_64"
index=1
kernel="/boot/vmlinuz-0-rescue-4d684a4a6166439a867e701ded4f7e10"
args="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap rhgb quiet $tuned_params"
root="/dev/mapper/rhel-root"
"""


def test_entries_that_grubby_shows() -> None:
    first, second = _grubby.arguments(RECORDED)
    assert first[1:2] == ["crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M"]
    assert second == [*first, "$tuned_params"]


@pytest.mark.parametrize(
    ("wanted", "calls"),
    [
        ({"nohz_full": "1-3"}, ["--args=nohz_full=1-3"]),
        ({"quiet": None}, ["--remove-args=quiet"]),
        ({"quiet": None, "nosmt": ""}, ["--remove-args=quiet nosmt", "--args=nosmt"]),
        (
            {"hugepages": "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8", "crashkernel": "1G"},
            [
                "--remove-args=default_hugepagesz hugepagesz hugepages crashkernel",
                "--args=hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8 crashkernel=1G",
            ],
        ),
        ({"gone": None}, []),
    ],
)
def test_calls_of_grubby(wanted: dict[str, str | None], calls: list[str]) -> None:
    found = _cmdline.settings(_grubby.arguments(RECORDED)[0])
    assert _grubby.commands(wanted, found) == [["grubby", "--update-kernel=ALL", call] for call in calls]


def test_grubby_cannot_set_spaces() -> None:
    with pytest.raises(BadRequest, match="spaces"):
        _grubby.commands({"a": '"b c"'}, {})


def test_an_entry_that_grubby_left_out_is_a_failure() -> None:
    with pytest.raises(NotApplied, match="not every boot entry"):
        _grubby.Grubby(lambda command: RECORDED).change({"nohz_full": "1-3"})


# Which boot loader


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("/run/ostree-booted", "", "rpm-ostree kargs"),
        ("/etc/kernel/proxmox-boot-uuids", "1234", "proxmox-boot-tool refresh"),
        (_bootloader.LOADER_INFO, "s\0y\0s\0t\0e\0m\0d\0-\0b\0o\0o\0t\0 \x002\x005\x007\0", "systemd-boot"),
    ],
)
def test_other_boot_loaders_are_refused_by_name(boot: Boot, path: str, text: str, words: str) -> None:
    boot.tree.put(path, text)
    with pytest.raises(BadRequest, match=words):
        _bootloader.find(boot.tree.fs)


def test_the_boot_loader_is_found(boot: Boot) -> None:
    assert isinstance(_bootloader.find(boot.tree.fs), _grub.Grub)
    boot.tree.drop(_grub.RESULT)
    with pytest.raises(BadRequest, match="does not boot this host"):
        _bootloader.find(boot.tree.fs)
    boot.tree.drop(_grub.UPDATE)
    boot.tree.put("/etc/os-release", 'PRETTY_NAME="Plan 9"')
    with pytest.raises(BadRequest, match=r"Plan 9 has neither /usr/sbin/update-grub nor grubby"):
        _bootloader.find(boot.tree.fs)
    boot.tree.put("/usr/sbin/grubby", "")
    assert isinstance(_bootloader.find(boot.tree.fs), _grubby.Grubby)


def test_an_undo_of_nothing_needs_no_boot_loader(tree: hosts.Host) -> None:
    (only,) = _knob_cmdline.build(Host(tree.fs), {})
    assert only.read([]) == {}
    assert only.facts()["reboot_required"] is False
