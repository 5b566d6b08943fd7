# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on hosts whose EFI system partitions proxmox-boot-tool fills: by systemd-boot, or by GRUB.

The partitions are not mounted, and only the tool writes to them. With systemd-boot, ``proxmox-boot-tool refresh``
writes the first row of /etc/kernel/cmdline into the entries of each partition. With GRUB, a script of the tool in
/etc/grub.d makes update-grub do the same with a grub.cfg on each. After a change, each partition is mounted in a mount
namespace of its own, where nobody else sees it, and what it holds is read; to look at that at each check, the service
of the check would have to mount partitions, so a check reads the files that the tool reads.

Source: proxmox-boot-tool, zz-proxmox-boot and 000_proxmox_boot_header of proxmox-kernel-helper 8; written after these
scripts, and not yet run on such a host.
"""

from __future__ import annotations

from ..._errors import NotApplied
from ..._io import textfile
from ..._notation import cmdline
from .cmdline_file import CmdlineFileLoader, require_settings, without_boot_words
from .command_line_text import read_parameters, split_entry_row, split_first_cmdline_row
from .grub import Grub, parse_parameters_of_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .command_line_text import RowSplitter

PARTITIONS = "/etc/kernel/proxmox-boot-uuids"
TOOL = "proxmox-boot-tool"
REFRESH = (TOOL, "refresh")
DEVICES, MOUNT_POINT, FIRMWARE = "/dev/disk/by-uuid", "/mnt", "/sys/firmware/efi"
#: Prints what the boot loader of each partition reads, each text after a name, all ended by a zero byte. A partition
#: that somebody has mounted cannot be mounted read-only beside that, and then is mounted as it is there.
READ_PARTITIONS = """\
set -e
devices=$1 mount_point=$2 firmware=$3
shift 3
for name in "$@"; do
  [ -e "$devices/$name" ] || continue
  mount -o ro "$devices/$name" "$mount_point" 2>/dev/null || mount "$devices/$name" "$mount_point"
  if [ -d "$firmware" ] && [ ! -e "$mount_point/EFI/proxmox/grubx64.efi" ]; then
    set -- "$mount_point"/loader/entries/proxmox-*.conf
  else
    set -- "$mount_point/grub/grub.cfg"
  fi
  for file in "$@"; do
    [ ! -f "$file" ] || { printf '%s\\0' "$name:${file#"$mount_point"}"; cat "$file"; printf '\\0'; }
  done
  umount "$mount_point"
done
"""


class ProxmoxSystemdBoot(CmdlineFileLoader):
    """The entries of systemd-boot on each partition, which come from the first row of /etc/kernel/cmdline."""

    name = "proxmox-boot-tool with systemd-boot"
    remake_hint = f"run '{' '.join(REFRESH)}', or have the next run do it"
    split_row: RowSplitter = staticmethod(split_first_cmdline_row)

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return what the tool gives to each entry; that of a change that did not end is not known."""
        return [] if self.unfinished_reason() else [read_parameters(self._read_cmdline_text(), self.split_row)]

    def fallback_text(self) -> str:
        """Return the parameters of the running kernel, which the tool takes too."""
        words = cmdline.split_kernel_command_line(self.fs.read("/proc/cmdline"))
        return " ".join(without_boot_words(words)) + "\n"

    def remake_entries(self, wanted: Mapping[str, str | None]) -> None:
        """Have the tool write all entries, and read them on each partition."""
        self.run(REFRESH)
        texts = read_partitions(self.fs.root, self.run)
        entries = {name: text for name, text in texts.items() if name.endswith(".conf")}
        _require_any(entries, "boot entry of systemd-boot")
        for name, text in entries.items():
            require_settings(wanted, read_parameters(text, split_entry_row), name, " ".join(REFRESH))


class ProxmoxGrub(Grub):
    """GRUB with a grub.cfg on each partition."""

    name = "proxmox-boot-tool with GRUB"

    def _require_settings_in_entries(self, wanted: Mapping[str, str | None]) -> None:
        super()._require_settings_in_entries(wanted)
        texts = read_partitions(self.root, self.run)
        files = {name: text for name, text in texts.items() if name.endswith("grub.cfg")}
        _require_any(files, "grub.cfg")
        for name, text in files.items():
            for words in parse_parameters_of_entries(text):
                require_settings(wanted, words, name, "update-grub")


def read_partitions(root: str, run: Callable[[Sequence[str]], str]) -> dict[str, str]:
    """Return what the boot loader of each partition reads: UUID and path -> text."""
    rows = (textfile.read_text(textfile.path_in_tree(root, PARTITIONS)) or "").split()
    names = [row for row in rows if row.replace("-", "").isalnum()]
    places = [textfile.path_in_tree(root, path) for path in (DEVICES, MOUNT_POINT, FIRMWARE)]
    namespace = ["unshare", "--mount", "--propagation", "private"]
    parts = run([*namespace, "sh", "-c", READ_PARTITIONS, "sh", *places, *names]).split("\0")
    return dict(zip(parts[::2], parts[1::2]))


def _require_any(texts: Mapping[str, str], what: str) -> None:
    if not texts:
        raise NotApplied(
            f"{TOOL} succeeded, but none of the partitions in {PARTITIONS} has a {what}. See what '{TOOL} status' says."
        )
