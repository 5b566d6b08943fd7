# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What cannot be had is refused with one sentence each, while an instance runs and goes on running."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.memory_need import (
    PROCESS_BYTES,
    estimate_memory_need,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, llama_servers

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
MIB = 1 << 20
#: Shows what a server says of its memory before it takes any; it is ended before it has loaded the model.
FIGURES = """
rm -f /run/said
{} --model {} {} --ctx-size 40000 --parallel 3 --port 8090 --log-verbosity 5 >/run/said 2>&1 &
for turn in $(seq 300); do
    if grep -qs 'compute buffer size' /run/said || ! kill -0 $!; then break; fi
    sleep 0.1
done
kill -KILL $!
sed '/compute buffer size/q' /run/said
"""
#: Makes the processor stop with an unknown instruction where the server begins to compute.
BREAK = r"""
set -e
mkdir -p /opt/broken/bin
cp -L /opt/built/bin/* /opt/broken/bin/
cd /opt/broken/bin
at=$(objdump -d --no-show-raw-insn llama-server | sed -n 's/ <ggml_graph_compute>:$//p')
text=$(readelf -SW llama-server | sed -n 's/.* \.text  *PROGBITS *\([0-9a-f]*\) \([0-9a-f]*\) .*/0x\1 - 0x\2/p')
printf '\x0f\x0b' | dd of=llama-server bs=1 seek=$((0x$at - ($text))) conv=notrunc status=none
"""


#: What is asked, and words of the sentence that refuses it.
CANNOT_BE = [
    ({"model": "/srv/none.gguf"}, "Instance chat: /srv/none.gguf cannot be read: No such file or directory."),
    ({"extra_arguments": ["--no-such-flag"]}, "does not take its arguments, exit code 1: error: invalid argument"),
    ({"context": 100_000_000}, "Take a smaller context or model, a quantized KV cache, or more nodes."),
    ({"prompt_cache": "9999GiB"}, "9999 GiB prompt cache); nodes 0 have"),
    ({"port": 22222}, "port 22222 of 127.0.0.1 is taken by another program; 'ss -ltnp' shows which."),
    ({"binary": "/bin/true"}, "/bin/true"),
    ({"binary": "/srv/none"}, "there is no /srv/none. Install it, or correct its path."),
    ({"chat_template": "/srv/none"}, "chat_template: /srv/none cannot be read (No such file or directory). Bring it"),
    ({"api_key_file": "/srv/none"}, "The key file /srv/none cannot be read: No such file or directory."),
    ({"extra_arguments": ["--host", "0.0.0.0"]}, "extra_arguments: --host is set by the plan. Leave it out"),
    ({"extra_arguments": ["--api-key", "x"]}, "--api-key would put a secret into a unit file that everyone"),
    ({"user": "nobody-here"}, "There is no user nobody-here."),
    ({"speculation": "draft"}, "speculation is draft, which needs a draft_model; or say ngram."),
]


def ensure_running_instance(service_host):
    if service_host.run("systemctl is-active llama-chat.service", check=False) != "active\n":
        service_host.serve(CHAT)


@pytest.fixture(autouse=True)
def running(service_host):
    """An instance that runs before and after."""
    ensure_running_instance(service_host)
    yield
    assert service_host.fetch_status(8080, "/health") == 200


@pytest.fixture(scope="module")
def said(service_host):
    """What is said of each that cannot be, asked for beside an instance that runs."""
    ensure_running_instance(service_host)
    service_host.run("nohup python3 -m http.server --bind 127.0.0.1 22222 >/dev/null 2>&1 &")
    service_host.run("until ss -ltn | grep -q :22222; do sleep 0.1; done")
    return service_host.expect_refusals(*({**CHAT, **asked} for asked, dummy in CANNOT_BE))


@pytest.mark.parametrize("number", range(len(CANNOT_BE)), ids=[str(asked) for asked, dummy in CANNOT_BE])
def test_what_cannot_be(said, number):
    assert len(said) == len(CANNOT_BE)
    assert CANNOT_BE[number][1] in said[number] and said[number].startswith("Instance chat: ")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", architectures.NUMBERS)
def test_the_memory_that_a_plan_counts_is_what_the_server_takes(service_host, name, shared, tmp_path):
    """By what the server says before it loads a model, and of models of every kind, whose weights are holes."""
    asked = {**CHAT, "binary": service_host.binary, "context": 40000, "slots": 3, "kv_unified": shared}
    options = Options.parse({**asked, "model": str(architectures.write(tmp_path / "m.gguf", name))})
    model = gguf_model.read_model(options.model)
    counted, dummy, remarks = estimate_memory_need(options, llama_servers.server("b11434"), model)
    header = Path(options.model).read_bytes()[: -model.parts[0].data_bytes or None]
    path = f"/var/lib/{name}.gguf"
    service_host.run(
        f"base64 --decode >{path} && truncate -s {model.parts[0].size} {path}", text=base64.b64encode(header).decode()
    )
    said = service_host.run(FIGURES.format(service_host.binary, path, "--kv-unified" if shared else ""))
    service_host.run(f"rm {path}")
    caches = sum(float(size) for size in re.findall(r"(?:kv_cache|recurrent): size = +([\d.]+) MiB", said))
    (buffers,) = re.findall(r"compute buffer size = +([\d.]+) MiB", said)
    assert remarks == [] and counted.kv_cache / MIB == pytest.approx(caches, abs=0.05), said
    assert float(buffers) < counted.compute / MIB < 4 * float(buffers) + PROCESS_BYTES / MIB, said


def test_a_truncated_model(service_host):
    service_host.run(f"head -c 50M {service_host.model} >/var/lib/half.gguf")
    said = service_host.expect_refusal({**CHAT, "model": "/var/lib/half.gguf"})
    assert "/var/lib/half.gguf" in said and "truncated" in said, said


def test_a_model_that_the_server_may_not_read(service_host):
    service_host.run(f"install -m 600 {service_host.model} /var/lib/closed.gguf")
    said = service_host.expect_refusal({**CHAT, "model": "/var/lib/closed.gguf"})
    assert "/var/lib/closed.gguf cannot be read by the user that systemd makes for it." in said


def test_a_draft_with_another_vocabulary(service_host):
    draft = zero_model.build_zero_model_file()
    service_host.run("base64 --decode >/var/lib/draft.gguf", text=base64.b64encode(draft).decode())
    said = service_host.expect_refusal({**CHAT, "speculation": "draft", "draft_model": "/var/lib/draft.gguf"})
    assert "/var/lib/draft.gguf cannot draft for" in said
    assert "the model has a vocabulary of the kind gpt2, the draft one of the kind llama" in said


def test_a_checksum_of_another_file(service_host):
    wrong = "sha256:" + "0" * 64
    said = service_host.expect_refusal(CHAT, epyc_llama_checksum=wrong)
    assert f"and epyc_llama_checksum says {wrong}. Install that file, or correct epyc_llama_checksum." in said
    assert wrong in service_host.expect_refusal(
        CHAT, epyc_llama_models=[{"path": service_host.model, "checksum": wrong}]
    )


def test_a_name_that_no_model_has(service_host):
    said = service_host.expect_refusal(
        {**CHAT, "model": "smollm-135m"}, epyc_llama_models=[{"name": "smollm2-135m-q4"}]
    )
    assert "Instance chat: model: there is no model smollm-135m; near are smollm2-135m-q4" in said


def test_a_token_that_is_none(service_host):
    """It has come to the module all the same, over the connection alone, and nothing of it stays."""
    played = service_host.run_role(
        epyc_llama_instances=service_host.with_test_model(CHAT),
        epyc_llama_models=[{"name": "smollm2-135m-q4"}],
        epyc_llama_hub_token="sword fish",
    )
    (failed,) = [result for result in played.results if result["status"] == "failed"]
    assert "token: it has spaces or other characters that no token has; look at epyc_llama_hub_token." in str(failed)
    assert "sword" not in played.output + str(played.results)
    assert service_host.run("ls /run/*.token; grep -rlsI 'sword fish' /etc /root /run /tmp /var", check=False) == ""


def test_a_server_for_another_processor(service_host):
    service_host.run(BREAK)
    said = service_host.expect_refusal({**CHAT, "binary": "/opt/broken/bin/llama-server"})
    assert "/opt/broken/bin/llama-server was built for another CPU: it ends with SIGILL" in said


def test_one_of_several_keeps_all_from_changing(service_host):
    other = {"name": "other", "port": 8081}
    assert "Instances chat and other both have port 8080." in service_host.expect_refusal(CHAT, {**other, "port": 8080})
    assert "Instance other: /srv/none.gguf cannot be read" in service_host.expect_refusal(
        {**CHAT, "context": 4096}, {**other, "model": "/srv/none.gguf"}
    )
