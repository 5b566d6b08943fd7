#!/usr/bin/env bash
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Report the drift of a fleet: nothing but the page here, and the page and the data in .drift, where the next run finds
# what to compare with. Arguments go to ansible-playbook. Exit codes: 0 clean, 2 drift, 1 error or unreachable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh
mkdir -p .drift
export ANSIBLE_STDOUT_CALLBACK=sovereign.epyc.drift
export SOVEREIGN_EPYC_DRIFT_JSON=.drift/report.json SOVEREIGN_EPYC_DRIFT_HTML=.drift/report.html
exec tools/run.sh ansible-playbook playbooks/drift.yml "$@"
