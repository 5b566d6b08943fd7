#!/usr/bin/env bash
# new_clone.sh X: a clone of the trunk where the tools work
set -eu
d=/tmp/w/p4/$1/ansible_collections/sovereign
mkdir -p "$d"; git clone -q /tmp/w/p4/trunk.git "$d/epyc"; cd "$d/epyc"
ln -s "$(readlink -f /work/main/.venv)" .venv
git config user.name "$(git -C /work/main config user.name)"; git config user.email "$(git -C /work/main config user.email)"
git config pull.rebase true
pwd
