#!/usr/bin/env bash
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Build what a release is, into build/release: the archive, the documents that `make docs` has just built, the changelog,
# and their checksums. The archive is made from a copy of the commit, in which the fragments become the changelog, so that
# nothing gets in that is not in git. The same commit gives the same bytes, also after the files that a release leaves in
# the clone were committed: CHANGELOG.md, changelogs/changelog.yaml and changelogs/interface.json. What is in the archive
# is judged by tests/gates/test_archive.py.
#
# A Galaxy server refuses an archive without the address of its repository. This project has no public one, so whoever
# makes the release says where its users find the sources; the other addresses are optional.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ ${REPOSITORY:-} == https://?* ]] || {
    printf 'release: say where those who get this release find its sources, because each Galaxy server asks for it: %s\n' \
        'make release REPOSITORY=https://... (HOMEPAGE=, DOCUMENTATION= and ISSUES= are optional). No archive was built.' >&2
    exit 1
}
out=$PWD/build/release
[[ -z $(git status --porcelain) ]] || {
    printf 'release: a release is made from a commit, and these are in none:\n%s\n' "$(git status --short)" >&2
    exit 1
}
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/ansible_collections/sovereign/epyc
mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
version=$(sed -n 's/^version: //p' galaxy.yml)
archive=$out/sovereign-epyc-$version.tar.gz
kept=(CHANGELOG.md changelogs/changelog.yaml changelogs/interface.json)

# A release that is in the changelog keeps its date.
date=$(python -c 'import sys, yaml; print(yaml.safe_load(sys.stdin)["releases"].get(sys.argv[1], {}).get("release_date", ""))' \
    "$version" <changelogs/changelog.yaml)
date=${date:-$(TZ=UTC git log -1 --date=short-local --format=%cd)}
seconds=$(date --utc --date "$date" +%s)

for name in repository homepage documentation issues; do
    address=${name^^}
    [[ -z ${!address:-} ]] || printf '%s: "%s"\n' "$name" "${!address}" >>"$tree/galaxy.yml"
done
(cd "$tree" && antsibull-changelog release --update-existing --date "$date")
PYTHONPATH=.collections:. python -m tools.interface --release "$version" >"$tree/changelogs/interface.json"
cp "$tree/CHANGELOG.md" "$out"
ansible-galaxy collection build --output-path "$out" "$tree"
python tools/release/same_bytes.py "$archive" "$seconds"
tar -c --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=gnu -C build/docs \
    --transform "s,^html,sovereign-epyc-docs-$version," html | gzip -n >"$out/sovereign-epyc-docs-$version.tar.gz"
(cd "$out" && sha256sum -- * >SHA256SUMS)

tools/release/prove_archive.sh "$out"
for file in "${kept[@]}"; do cp "$tree/$file" "$file"; done
printf '%s\n' "build/release:" && ls "$out"
[[ -z $(git status --porcelain) ]] || printf 'Commit what the release of %s leaves in the clone:\n%s\n' "$version" "$(git status --short)"
