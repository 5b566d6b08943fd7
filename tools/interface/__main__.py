# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hold docs/interface.md and the interface of the last release against the sources; --write renews the page.

With --release VERSION, print the interface as the file of that release, changelogs/interface.json. Run as
`make interface`.
"""

from __future__ import annotations

import argparse
import json
import sys

import yaml

from tools.interface.losses import list_losses, list_unannounced_losses
from tools.interface.page import PAGE, insert_tables
from tools.interface.sources import ROOT, read_interface

RELEASED = ROOT / "changelogs/interface.json"
CHANGES = ROOT / "changelogs/changelog.yaml"
FRAGMENTS = ROOT / "changelogs/fragments"


def read_new_fragments() -> dict[str, list[str]]:
    """Return the entries of all fragments that are in no release, by section."""
    releases = yaml.safe_load(CHANGES.read_text(encoding="utf-8"))["releases"]
    released = {name for release in releases.values() for name in release["fragments"]}
    entries: dict[str, list[str]] = {}
    for path in FRAGMENTS.glob("*.y*ml"):
        if path.name not in released:
            for section, texts in yaml.safe_load(path.read_text(encoding="utf-8")).items():
                entries.setdefault(section, []).extend([texts] if isinstance(texts, str) else texts)
    return entries


def main() -> int:
    parser = argparse.ArgumentParser(prog="interface", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the page")
    parser.add_argument("--release", metavar="VERSION", help="print the file of a release instead")
    arguments = parser.parse_args()
    interface = read_interface()
    if arguments.release:
        print(json.dumps({"version": arguments.release, "interface": interface}, indent=1))
        return 0
    page = PAGE.read_text(encoding="utf-8")
    renewed = insert_tables(page, interface)
    if arguments.write:
        PAGE.write_text(renewed, encoding="utf-8")
        page = renewed
    problems = [] if page == renewed else [f"{PAGE.name} is not as the sources: make interface ARGS=--write renews it"]
    if RELEASED.exists():
        released = json.loads(RELEASED.read_text(encoding="utf-8"))
        routing = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8")).get("plugin_routing", {})
        losses = list_losses(released["interface"], interface)
        problems += [
            f"since {released['version']}: {problem}"
            for problem in list_unannounced_losses(losses, read_new_fragments(), routing)
        ]
    print("\n".join(problems) or f"{sum(map(len, interface.values()))} names are as the page and the last release say")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
