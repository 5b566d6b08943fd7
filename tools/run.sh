#!/usr/bin/env bash
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Run a command with the tools of .venv. The folder of the Python it was built on comes right after: tools that look for
# `python3.12` by name must find the interpreter, not a pyenv shim that refuses to run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=$(sed -n 's/^home = //p' "$root/.venv/pyvenv.cfg")
export PATH="$root/.venv/bin:$home:$PATH"
exec "$@"
