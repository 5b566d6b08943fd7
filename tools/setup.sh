#!/usr/bin/env bash
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Make this clone ready: the Debian packages the lab and the tests need, and a Python environment with the pinned tools,
# linked as .venv. Run it as often as you like; it does nothing when nothing is missing.
#
# With --site it prepares for `make site` and its like alone: without the browser and the Python packages that only
# tests need. With --image KERNEL it builds the image of the guests with that kernel, too, while pip is at work.
#
# The environment lives in a cache outside the clone, one per (requirements.txt, Python), so that clones share it and
# changing branches does not rebuild it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(qemu-system-x86 qemu-utils acpica-tools mmdebstrap debootstrap debian-archive-keyring e2fsprogs fdisk binutils
    iproute2 xz-utils zstd openssh-client python3-venv git systemd-container)
# Opens the drift report. Debian has it under this name; elsewhere any Chromium in PATH will do.
BROWSER=chromium-headless-shell

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "must be root, or have sudo, to run: $*"
    fi
}

install_packages() {
    local missing=() package
    command -v dpkg-query >/dev/null || die "needs Debian or Ubuntu; elsewhere install the like of: ${PACKAGES[*]}"
    for package in "${PACKAGES[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
    done
    if ! $site_only && ! command -v "$BROWSER" chromium google-chrome >/dev/null && apt-cache show "$BROWSER" >/dev/null 2>&1; then
        missing+=("$BROWSER")
    fi
    ((${#missing[@]})) || return 0
    say "installing ${missing[*]} (once, usually 10 to 120 s)"
    as_root apt-get update -q >&2 || say "apt-get update failed; trying with the package lists there are"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 ||
        die "apt-get could not install them, for the reason above: often no network, no space, or another apt-get at work"
}

# A pyenv shim is in PATH for every version but fails for those not selected, so each candidate is run, not just found.
# Printed is the real interpreter, which an environment can be built on.
find_python() {
    local version candidate real
    for version in 3.12 3.13 3.11; do
        while read -r candidate; do
            real=$("$candidate" -c 'import sys, ensurepip, venv
print(getattr(sys, "_base_executable", sys.executable)) if "%d.%d" % sys.version_info[:2] == sys.argv[1] else sys.exit(1)
' "$version" 2>/dev/null) || continue
            printf '%s\n' "$real"
            return
        done < <(
            type -ap "python$version" || true
            printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version" | sort -rV
        )
    done
    die "no working Python 3.12, 3.13 or 3.11 with venv and ensurepip, neither in PATH nor in pyenv's versions folder"
}

# `vepyc up` waits for it, and tells when it fails. An interrupt of make ends it, though bash has it ignored for whatever
# runs in the background.
build_image_meanwhile() {
    env --default-signal=INT "$1" lab/bin/vepyc image --kernel "$image_kernel" 2>/dev/null | sed -un 's/^building/setup: building/p' >&2 &
}

environment_key() {
    { printf '%s\n' "$2" && "$1" -VV && echo "$1"; } | sha256sum | cut -c 1-16
}

build_environment() {
    local python=$1 cache venv requirements
    cache=${SOVEREIGN_EPYC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sovereign-epyc}
    requirements=$(<requirements.txt)
    venv=$cache/venv/$(environment_key "$python" "$requirements")
    # The whole environment will do as well, and may be there already.
    if $site_only && [[ ! -e $venv/complete ]]; then
        requirements=$(grep -E '^(ansible-core|jinja2)==' requirements.txt)
        venv=$cache/venv/$(environment_key "$python" "$requirements")
    fi
    mkdir -p "$cache/venv"
    # An environment cannot be moved into place once built, so a stamp written last tells a whole one from a torn one.
    (
        flock 9
        if [[ ! -e $venv/complete ]]; then
            say "building the Python environment with $python (once, usually 20 to 60 s)"
            rm -rf "$venv"
            "$python" -m venv "$venv"
            "$venv/bin/python" -m pip install -q --disable-pip-version-check -r <(printf '%s\n' "$requirements") >&2 ||
                die "pip could not install requirements.txt, for the reason above: often no network, or no space left"
            touch "$venv/complete"
        fi
    ) 9>"$venv.lock"
    [[ $(readlink .venv || true) == "$venv" ]] && return
    [[ ! -e .venv || -L .venv ]] || die ".venv is here but is not a link; move it away"
    ln -sfn "$venv" .venv
}

site_only=false image_kernel=
while (($#)); do
    case $1 in
        --site) site_only=true ;;
        --image) image_kernel=${2:?} && shift ;;
        *) die "there is no option $1" ;;
    esac
    shift
done
install_packages
python=$(find_python)
if [[ $image_kernel ]]; then build_image_meanwhile "$python"; fi
build_environment "$python"
