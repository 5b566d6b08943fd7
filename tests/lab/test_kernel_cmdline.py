# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters with the real update-grub and what a real GRUB reads; test_whole_host boots with some."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask
from vepyc.images.guest_system import BOOT_PARAMETERS, ROOT_DEVICE

from .conformance import run_program

pytestmark = pytest.mark.slow

DROP_IN = "/etc/default/grub.d/zzz-sovereign-epyc.cfg"
FILES = "stat -c '%n %a %U' /etc/default/grub /boot/grub/grub.cfg; ls -A /etc/default/grub.d /etc/grub.d /boot/grub; "
FILES += "sha256sum /etc/default/grub /boot/grub/grub.cfg"
LINES = r"sed -n 's/^\t*linux\t*[^ ]* //p' /boot/grub/grub.cfg"
# The image has no entries for recovery.
RECOVERY = "GRUB_DISABLE_RECOVERY=false\n"
INTENT = {"draft": {"l3_domains": 1}, "verify": {"l3_domains": 1}, "housekeeping": {"cores": 1, "per": "node"}}
OURS = "isolcpus=managed_irq,9-11 nohz_full=5-7,9-11"
FOREIGN = f"root={ROOT_DEVICE} ro {BOOT_PARAMETERS}"
#: What is refused, and words that the sentence must have.
REFUSED = [
    ({}, ["Nothing is requested"]),
    ({"parameters": ["isolcpus=1-99"]}, ["CPU 16-99 is not on this host"]),
    ({"parameters": ["nohz_full={all}"]}, ["takes CPU 0 away"]),
    ({"parameters": ["isolcpus=draft"]}, ["in braces, such as isolcpus={draft,verify}"]),
    ({"parameters": ["hugepagesz=2M", "hugepages=1300"]}, ["2600 MiB", "left to boot with"]),
    ({"parameters": ["hugepages=1:400"]}, ["node 1 has", "800 MiB of it were asked for"]),
    ({"parameters": ["a=$(reboot)"]}, ["'$'", "would not reach"]),
    ({"parameters": ["root=/dev/sda1"]}, ["written by the boot loader itself"]),
    ({"parameters": [f"name{n}={'x' * 90}" for n in range(20)]}, ["cut off the rest"]),
    ({"absent": ["quiet="]}, ["without a value"]),
]


def lines(guest):
    """The parameters of each entry of grub.cfg, which on this guest are all the same but for those for recovery.

    Of what Debian itself gives to the latter, only the first word is the same in all versions.
    """
    return sorted({line.strip().replace(" dis_ucode_ldr", "") for line in guest.run(LINES).splitlines()})


def rescue(parameters):
    """What an entry for recovery has of these, which all entries have."""
    return parameters.replace(" ro ", " ro single ")


def refused(guest, *words, **asked):
    """Run the module, which must fail in one sentence with these words and change nothing."""
    before = guest.run(FILES)
    result = guest.module("kernel_cmdline", **asked)
    assert result.get("failed"), result
    assert [word for word in words if word not in result["msg"]] == [], result["msg"]
    assert "\n" not in result["msg"]
    assert guest.run(FILES) == before


@pytest.fixture
def host(bare_guest):
    before = bare_guest.run(FILES)
    yield bare_guest
    assert bare_guest.run(FILES) == before


@contextlib.contextmanager
def file(guest, path, text, mode="644"):
    """Have a file that is not ours; afterwards grub.cfg is again what it was without that file."""
    keep = "cp -a /boot/grub/grub.cfg /run/grub.cfg"
    guest.machine.run(f"{keep} && cat >{path} && chmod {mode} {path}", input=text)
    try:
        yield
    finally:
        guest.run(f"rm {path}; cp -a /run/grub.cfg /boot/grub/grub.cfg")


def test_parameters_reach_grub_and_go_back(host):
    """Set, find nothing to change, put back, and find every byte as it was. test_whole_host boots with such."""
    before = host.run(FILES)
    asked = {
        "parameters": [
            "isolcpus=managed_irq,{verify}",
            "nohz_full={draft,verify}",
            'sovereign.test="a b"',
            "hugepagesz=2M",
            "hugepages=8",
        ],
        "absent": ["quiet"],
        "intent": INTENT,
    }
    check = host.module("kernel_cmdline", _ansible_check_mode=True, **asked)
    assert (check["changed"], check["reboot_required"]) == (True, True)
    assert host.run(FILES) == before
    assert host.run("ls /var/lib/sovereign-epyc", check=False) == ""

    made = host.module("kernel_cmdline", **asked)
    assert made["diff"] == check["diff"]
    assert made["diff"]["changes"]["before"] == {
        "cmdline:isolcpus": None,
        "cmdline:nohz_full": None,
        "cmdline:sovereign.test": None,
        "cmdline:hugepages": None,
        "cmdline:quiet": "",
    }
    assert made["pending"] == ["isolcpus", "nohz_full", "sovereign.test", "hugepages", "quiet"]
    assert lines(host) == [f'{FOREIGN} {OURS} sovereign.test="a b" hugepagesz=2M hugepages=8']
    again = host.module("kernel_cmdline", **asked)
    assert (again["changed"], again["reboot_required"]) == (False, True)

    back = host.module("epyc_restore")
    assert back["diff"]["changes"]["after"].keys() == made["diff"]["changes"]["after"].keys()
    assert host.run(FILES) == before


def test_what_others_set_is_overridden_and_kept(host):
    """Also a parameter that another variable of GRUB sets, or that is there twice. Put back, those hold again.

    The entry for recovery never has ours: it is the way out of them. What was taken over is given back to what the
    others say at the undo, which is not what they said before.
    """
    text = RECOVERY + 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT nosmt foo=1 bar=\\"x nosmt y\\" foo=2"\n'
    with file(host, "/etc/default/grub.d/50-other.cfg", text):
        host.run("update-grub 2>&1")
        assert len(lines(host)) == 2
        result = host.module("kernel_cmdline", parameters=["foo=3", "both=1"], absent=["nosmt"])
        assert result["diff"]["changes"]["before"] == {
            "cmdline:foo": "foo=1 foo=2",
            "cmdline:both": None,
            "cmdline:nosmt": "",
        }
        assert [remark.split(", to")[0] for remark in result["remarks"]] == [
            "foo is also set by /etc/default/grub.d/50-other.cfg"
        ]
        assert lines(host) == [f'{FOREIGN} quiet bar="x nosmt y" foo=3 both=1', rescue(FOREIGN)]
        later = text.replace("foo=1", "foo=7") + 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX both=2"\n'
        host.machine.run("cat >/etc/default/grub.d/50-other.cfg", input=later)
        host.module("kernel_cmdline", state="original")
        assert lines(host) == [
            f'{FOREIGN} both=2 quiet nosmt foo=7 bar="x nosmt y" foo=2',
            rescue(f"{FOREIGN} both=2"),
        ]
        assert host.run(f"ls {DROP_IN}", check=False) == ""


def test_a_later_file_that_says_otherwise_is_named(host):
    with file(host, "/etc/default/grub.d/zzzz-later.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX foo=9"\n'):
        host.run("update-grub 2>&1")
        words = ["grub.d/zzzz-later.cfg, which is read after", "'foo=9 foo=3'", "put back"]
        refused(host, *words, parameters=["foo=3"])
        assert host.module("kernel_cmdline", parameters=["foo=9"])["changed"] is False


@pytest.mark.parametrize(
    "text",
    [
        "GRUB_CMDLINE_LINUX_DEFAULT='consoleblank=0'\n",
        "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT='net.ifnames=0'\nGRUB_CMDLINE_LINUX='rw'\n",
    ],
)
def test_a_provider_s_file_keeps_its_parameters_and_ours_are_there(host, text):
    """As hetzner.cfg, which sorts after every number and sets the whole variable anew."""
    with file(host, "/etc/default/grub.d/hetzner.cfg", text):
        host.run("update-grub 2>&1")
        before = lines(host)
        assert host.module("kernel_cmdline", parameters=["foo=3"])["changed"] is True
        assert lines(host) == [f"{line} foo=3" for line in before]
        assert host.module("kernel_cmdline", parameters=["foo=3"])["changed"] is False
        host.module("kernel_cmdline", state="original")
        assert lines(host) == before


def test_a_file_that_ends_update_grub_is_named_with_its_line(host):
    """The real update-grub ends there too, without a word."""
    with file(host, "/etc/default/grub.d/20-bad.cfg", "GRUB_TIMEOUT=5\n[ -f /nowhere ] && GRUB_TIMEOUT=1\n"):
        assert host.run("update-grub >/dev/null 2>&1 || echo failed").strip() == "failed"
        refused(host, "Line 2 of /etc/default/grub.d/20-bad.cfg ends update-grub", parameters=["foo=3"])


def test_a_failed_update_grub_leaves_nothing_behind(host):
    with file(host, "/etc/grub.d/09_broken", "#!/bin/sh\necho no such luck >&2; exit 3\n", "755"):
        refused(host, "update-grub", "no such luck", "put back", parameters=["foo=3"])


def test_a_grub_cfg_that_lost_it_is_made_anew(host):
    host.module("kernel_cmdline", parameters=["foo=3"])
    host.run("sed -i 's/ foo=3//' /boot/grub/grub.cfg")
    assert host.module("kernel_cmdline", parameters=["foo=3"], _ansible_check_mode=True)["changed"] is True
    assert host.module("kernel_cmdline", parameters=["foo=3"])["changed"] is True
    assert lines(host) == [f"{FOREIGN} quiet foo=3"]
    assert host.module("kernel_cmdline", parameters=["foo=3"])["changed"] is False
    # Moved away as a whole, it stands in the way of no undo.
    host.run("mv /boot/grub/grub.cfg /run/grub.cfg")
    assert not host.module("kernel_cmdline", state="original").get("failed")
    assert lines(host) == [f"{FOREIGN} quiet"]


def test_refusals_change_nothing(host):
    """All of them in one program, which takes no longer than one by itself."""
    steps = [ask(**asked) for asked, dummy in REFUSED]
    taken = run_program(host, f"take_steps(KernelFS(), 'kernel_cmdline', {steps!r}, [])", "kernel_cmdline")
    for (asked, words), row in zip(REFUSED, taken[1:], strict=True):
        answer = row["answer"]
        assert answer.get("failed"), asked
        assert [word for word in words if word not in answer["msg"]] == [], answer["msg"]
        assert "\n" not in answer["msg"]


@pytest.mark.parametrize(
    ("make", "undo", "words"),
    [
        ("touch /run/ostree-booted", "rm /run/ostree-booted", ["ostree", "rpm-ostree kargs"]),
        ("touch /etc/kernel/proxmox-boot-uuids", "rm /etc/kernel/proxmox-boot-uuids", ["proxmox"]),
        ("mv /usr/sbin/update-grub /usr/sbin/away", "mv /usr/sbin/away /usr/sbin/update-grub", ["Debian", "neither"]),
    ],
)
def test_other_boot_loaders_are_refused_by_name(host, make, undo, words):
    host.run(make)
    try:
        refused(host, *words, parameters=["foo=3"])
    finally:
        host.run(undo)
