#!/usr/bin/env bash
# From a clone with everything committed: rebase on the trunk, check quickly, push. Prints what is red on the trunk.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
[ -z "$(git status --porcelain)" ] || { echo "commit first"; git status --short | head; exit 1; }
exec 9>/tmp/w/p4/push.lock
flock -w 900 9
git fetch -q origin
if ! git rebase -q origin/main; then
  echo "REBASE STOPPED: mend the conflicts (git status), git add, git rebase --continue, and run this again."
  exit 1
fi
q() { chrt -i 0 nice -n 19 tools/run.sh "$@"; }
q ruff check -q . || { echo "ruff check is red after the rebase (ruff check --fix?): mend, commit, again"; exit 1; }
q ruff format -q --check . || { echo "ruff format is red (ruff format .): mend, commit, again"; exit 1; }
q python -m pytest -n0 -q -p no:cacheprovider -p no:warnings tests/gates/test_tools.py -k mypy >/tmp/w/p4/mypy.$$ 2>&1 || { grep -E "error:" /tmp/w/p4/mypy.$$ | head -40; echo "mypy is red after the rebase: mend, commit, again"; exit 1; }
git push -q origin HEAD:main
git log --oneline -1
rm -f /tmp/w/p4/mypy.$$
[ ! -s /tmp/w/p4/RED.md ] || { echo "--- red on the trunk; mend what is yours:"; cat /tmp/w/p4/RED.md; }
