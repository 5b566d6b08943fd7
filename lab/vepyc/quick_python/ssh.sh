#!/bin/sh
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The ssh that tests give to Ansible. Most of its calls start no Python on the host, and are ssh's alone: even the start
# of ssh.py, which looks at the others, would double their time.
for last; do :; done
case $last in
    *python3*) exec "${0%.sh}.py" "$@" ;;
    *) exec ssh "$@" ;;
esac
