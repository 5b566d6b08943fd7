set -e
cd "$1"
.venv/bin/python /tmp/w/p4/uv/apply.py .
python3 /tmp/w/p4/uv/groups.py .
python3 /tmp/w/p4/uv/manual.py .
git show HEAD:plugins/plugin_utils/_known_variables.py > /tmp/w/p4/uv/now.py; git -C /work/main show 4e47025:plugins/plugin_utils/_known_variables.py > /tmp/w/p4/uv/base.py; git merge-file -p /tmp/w/p4/uv/now.py /tmp/w/p4/uv/base.py /tmp/w/p4/uv/_known_variables.py > plugins/plugin_utils/_known_variables.py || echo CONFLICT known
tools/run.sh ruff format -q .
.venv/bin/python /tmp/w/p4/uv/spill.py .
.venv/bin/python /tmp/w/p4/uv/manual2.py .
python3 /tmp/w/p4/uv/manual3.py .
tools/run.sh ruff format -q .
tools/run.sh ruff check -q . || true
tools/run.sh yamllint --strict . || true
