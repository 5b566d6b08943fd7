# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on hosts of proxmox-boot-tool, whose scripts are played; the shell that reads partitions is real."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import bootloader, drop_in, grub, proxmox
from ansible_collections.sovereign.epyc.tests.unit.fakes import boots
from ansible_collections.sovereign.epyc.tests.unit.fakes.cmdline_boots import (
    BASE,
    CMDLINE,
    NEW,
    ProxmoxBoot,
    efi_host,
    files,
    run,
    undo,
)


def entries(boot: ProxmoxBoot) -> list[str]:
    """The options of each entry of each partition."""
    texts = [path.read_text() for path in sorted(boot.partitions.glob("*/loader/entries/*.conf"))]
    return [row.partition(" ")[2].strip() for text in texts for row in text.splitlines() if row.startswith("options")]


@pytest.mark.parametrize("cmdline", [None, BASE, f"{BASE}\nfoo=1"], ids=["absent", "row", "rows"])
def test_parameters_are_set_on_each_partition_and_the_first_bytes_come_back(
    tmp_path: Path, cmdline: str | None
) -> None:
    host = efi_host(tmp_path)
    host.put("/proc/cmdline", f"initrd=\\EFI\\proxmox\\initrd.img {BASE}")
    boot = ProxmoxBoot(host, cmdline)
    before = files(boot)
    assert run(boot, "nohz_full=1-3", absent=["quiet"]).to_diff()["before"] == {
        "cmdline:nohz_full": None,
        "cmdline:quiet": "",
    }
    assert boot.calls == ["proxmox-boot-tool refresh", "look"]
    assert entries(boot) == [f"{BASE.replace(' quiet', '')} nohz_full=1-3"] * 4
    assert run(boot, "nohz_full=1-3").changes == []
    undo(boot)
    assert files(boot) == before


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"fails": True}, "nothing good.*between two states"),
        ({"skips": "E4F5-0617"}, rf"E4F5-0617:/loader/entries/proxmox-{NEW.replace('+', '.')}.conf does not have it"),
    ],
)
def test_a_refresh_that_fails_gives_the_file_its_former_text(
    tmp_path: Path, fault: dict[str, object], words: str
) -> None:
    boot = ProxmoxBoot(efi_host(tmp_path))
    for name, value in fault.items():
        setattr(boot, name, value)
    with pytest.raises(TuningError, match=words):
        run(boot, "nohz_full=1-3")
    assert boot.host.fs.read(CMDLINE) == BASE
    boot.skips, boot.fails = "", False
    run(boot, "nohz_full=1-3")
    assert entries(boot) == [f"{BASE} nohz_full=1-3"] * 4


def test_a_change_that_was_killed_before_the_refresh_is_ended_by_the_next_run(tmp_path: Path) -> None:
    """The file says so, and the partitions cannot be seen without a mount."""
    boot = ProxmoxBoot(efi_host(tmp_path))

    def be_killed() -> None:
        raise KeyboardInterrupt

    boot.refresh, refresh = be_killed, boot.refresh  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        boot.find().apply_settings({"nohz_full": "1-3"})
    boot.refresh = refresh  # type: ignore[method-assign]
    assert "nohz_full=1-3" in boot.host.fs.read(CMDLINE)
    assert entries(boot) == [BASE] * 4
    assert [change.address for change in run(boot, "nohz_full=1-3").changes] == ["cmdline:nohz_full"]
    assert entries(boot) == [f"{BASE} nohz_full=1-3"] * 4


def test_partitions_without_entries_are_told(tmp_path: Path) -> None:
    boot = ProxmoxBoot(efi_host(tmp_path))
    boot.host.put(proxmox.PARTITIONS, "DEAD-BEEF\n../etc")
    with pytest.raises(TuningError, match=r"none of the partitions in /etc/kernel/proxmox-boot-uuids has a boot entry"):
        run(boot, "nohz_full=1-3")


def test_grub_is_proven_on_each_partition(tmp_path: Path) -> None:
    """update-grub has the tool write a grub.cfg on each, by a script of /etc/grub.d; here it forgets one of them."""
    boot = boots.Boot(boots.bootable(tmp_path))
    tool = ProxmoxBoot(boot.tree, None)
    loader = bootloader.find_boot_loader(boot.tree.fs)
    assert isinstance(loader, proxmox.ProxmoxGrub)
    forgotten = ["E4F5-0617"]

    def play(command: list[str]) -> str:
        if command[0] == "unshare":
            return tool(command)
        printed = boot(command)
        if command[0] == grub.UPDATE:
            for name in {*tool.PARTITIONS} - {*forgotten}:
                boot.tree.put(f"{proxmox.DEVICES}/{name}/grub/grub.cfg", boot.tree.fs.read(grub.RESULT))
        return printed

    for name in tool.PARTITIONS:
        boot.tree.put(f"{proxmox.DEVICES}/{name}/grub/grub.cfg", boot.tree.fs.read(grub.RESULT))
    loader.run, loader.flush = play, boot.settle  # type: ignore[assignment]
    with pytest.raises(NotApplied, match=r"E4F5-0617:/grub/grub.cfg does not have it: wanted '1-3', found nothing"):
        loader.apply_settings({"nohz_full": "1-3"})
    assert boot.tree.fs.read_status(drop_in.DROP_IN) is None
    forgotten.clear()
    loader.apply_settings({"nohz_full": "1-3"})
    assert "nohz_full=1-3" in boot.tree.fs.read(f"{proxmox.DEVICES}/E4F5-0617/grub/grub.cfg")
