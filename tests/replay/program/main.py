# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The door: a text that is asked for, a server, or a sentence on why there is none."""

from __future__ import annotations

import sys

from .arguments import Ended, Refused, Table


def main() -> int:
    """Do what the command line says; return the exit code."""
    table = Table()
    try:
        given = table.read(sys.argv[1:])
        # Imported here because most starts ask for a text only, and an emulated machine takes seconds for it.
        from .server import serve

        serve(given, table)
    except Ended as text:
        print(text)
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0
