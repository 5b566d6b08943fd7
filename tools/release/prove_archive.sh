#!/usr/bin/env bash
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Do what docs/install.md says, with the files of a release, in an empty folder and with an empty home: check them, install
# the archive, and plan by the full name of the playbook, the hosts of the example inventory without a connection and this
# computer for real. It knows nothing of the clone.
set -euo pipefail
release=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/folder"
cd "$work/folder"

run() {
    printf '$ %s\n' "$*"
    env -i PATH="$PATH" HOME="$work/home" LC_ALL=C.UTF-8 "$@" || {
        printf 'release: the archive does not do what docs/install.md says: %s\n' "$*" >&2
        exit 1
    }
}

cp "$release"/* .
run sha256sum --check --quiet SHA256SUMS
run ansible-galaxy collection install --offline sovereign-epyc-[0-9]*.tar.gz
installed=$work/home/.ansible/collections/ansible_collections/sovereign/epyc
mkdir inventories
cp -r "$installed/inventories/example" inventories/mine
run ansible-playbook -i inventories/mine sovereign.epyc.plan --list-hosts
run ansible-playbook -i inventories/mine sovereign.epyc.site --check --diff --list-tasks
# A Python that discovery finds need not run here, such as a shim of pyenv.
run ansible-playbook -i localhost, -c local -e ansible_become=false -e "ansible_python_interpreter=$(command -v python)" \
    -e epyc_hosts=all sovereign.epyc.plan
run ansible-doc -t module sovereign.epyc.epyc_plan >/dev/null
