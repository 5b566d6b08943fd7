# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible prints has no character that a terminal obeys, whoever wrote a text: a host, a BMC, a model, a document.

Ansible itself escapes control characters at most: marks that change the direction of writing pass in each format, and
warnings and errors are printed as they are.
"""

from __future__ import annotations

import ast
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.hostile_texts import spoil_texts
from vepyc import playbook_runs

ROOT = Path(__file__).parents[2]
#: A colour, a bell, a title, a link, a C1 control sequence, marks of direction, and characters without width.
ORDERS = "\x1b[31m\x07\x1b]0;t\x07\x1b]8;;http://x\x1b\\\x9b31m\x85\u202e\u2066\u2069\u200b\u2028\ufeff"
#: Those of them that a document of a run may have.
MARKS = "\u202e{}\u2066\u200b\u2028\ufeff"
ESCAPES = ("escape_lines", "escape_lines_in_data", "escape_unprintable", "_last_line_without_unprintable")
#: Calls that hand a text to Ansible.
DISPLAYS, ERRORS = ("display", "warning", "error", "v"), ("AnsibleError", "AnsibleActionFail", "AnsibleFilterError")
ENDS = ("exit_json", "fail_json", "warn")
#: Names whose texts are escaped elsewhere or are the operator's own, and the doors of modules, by file.
KNOWN = {
    "plugins/module_utils/_module_results.py": {"exit_json", "fail_json", "warn"},
    "plugins/callback/drift.py": {"page", "files"},
    "plugins/callback/plan.py": {"path", "summary"},
    "plugins/action/model_file.py": {"file"},
    "plugins/lookup/require_hosts.py": {"refusal"},
    "plugins/plugin_utils/_inventory_names/groups.py": {"variable"},
    "plugins/plugin_utils/_background.py": {"host", "line", "now", "begun"},
}


def printed_names(path: Path) -> set[str]:
    """Return the names in texts that a file hands to Ansible without an escape, and its ends of modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_display = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).endswith("display")
        if name in ENDS and not (node.args and isinstance(node.args[0], ast.Constant)):
            found.add(name)
        elif name in ERRORS or (is_display and name in DISPLAYS):
            found |= {name for argument in node.args for name in names_without_escape(argument)}
    return found


def names_without_escape(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ESCAPES:
        return
    if isinstance(node, ast.Name) and node.id != "str":
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from names_without_escape(child)


def test_texts_reach_ansible_through_the_doors_only() -> None:
    files = {str(path.relative_to(ROOT)): printed_names(path) for path in sorted((ROOT / "plugins").rglob("*.py"))}
    assert {name: names for name, names in files.items() if names} == KNOWN


def hostile_document() -> dict[str, Any]:
    def is_accepted(data: dict[str, Any]) -> bool:
        try:
            run_document.validate_document(data)
        except BadRequest:
            return False
        return True

    return dict(spoil_texts(bench_documents.ablation(), is_accepted, MARKS))


class HostileBmc(BaseHTTPRequestHandler):
    """A BMC whose messages are orders to the terminal."""

    def do_GET(self) -> None:
        message = {"MessageId": f"Base.1.0.{ORDERS}", "Message": f"No {ORDERS}."}
        body = json.dumps({"error": {"code": ORDERS, "message": ORDERS, "@Message.ExtendedInfo": [message]}}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *dummy: Any) -> None:
        """Say nothing."""


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[str]:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    server = HTTPServer(("127.0.0.1", 0), HostileBmc)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("form", [pytest.param("yaml", marks=pytest.mark.everyday), "json"])
def test_no_text_of_others_is_an_order_to_the_terminal(tmp_path: Path, bmc: str, form: str) -> None:
    """The real Ansible prints a BMC's refusal, a model's header, a document's report, and refusals of all three."""
    document, broken = tmp_path / "run.json", tmp_path / "broken.json"
    document.write_text(json.dumps(hostile_document()))
    broken.write_text(json.dumps({**bench_documents.ablation(), "started": ORDERS}))
    model = tmp_path / "model.gguf"
    names = ("general.architecture", "general.name", "general.license")
    model.write_bytes(ggufs.gguf([ggufs.entry(name, "8", ORDERS.encode()) for name in names]))
    one = f"lookup('sovereign.epyc.run_document', '{document}')"
    tasks: list[dict[str, Any]] = [
        {
            "sovereign.epyc.epyc_bmc_bios_info": dict(
                bmc=bmc, username="ops", password="of-the-bmc", validate_certs=False
            )
        },
        {"sovereign.epyc.gguf_info": {"model": str(model)}},
        {"ansible.builtin.debug": {"msg": f"{{{{ {one} | sovereign.epyc.benchmark_report }}}}"}},
        {"ansible.builtin.debug": {"msg": f"{{{{ [{one}, {one}] | sovereign.epyc.run_comparison }}}}"}},
        {"ansible.builtin.debug": {"msg": f"{{{{ lookup('sovereign.epyc.run_document', '{broken}') }}}}"}},
        {
            "ansible.builtin.debug": {
                "msg": f"{{{{ {one} | combine({{'started': odd}}) | sovereign.epyc.benchmark_report }}}}"
            }
        },
    ]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"odd": ORDERS, "ansible_python_interpreter": sys.executable},
    }
    play["tasks"] = [{**task, "ignore_errors": True} for task in tasks]
    book = tmp_path / "play.yml"
    book.write_text(json.dumps([play]))
    done = playbook_runs.run_command(
        "ansible-playbook", "-i", "localhost,", "-c", "local", "-v", str(book), cwd=ROOT, timeout=300,
        NO_COLOR="1", ANSIBLE_NOCOLOR="1", ANSIBLE_CALLBACK_RESULT_FORMAT=form,
    )  # fmt: skip
    parts = done.stdout.split("TASK [")[1:]
    assert [part.partition("]")[0] for part in parts if "\\u202e" not in part and r"\x1b" not in part] == []
    assert len(parts) == len(tasks)
    assert [line for line in done.stdout.split("\n") if not line.isprintable()] == []
