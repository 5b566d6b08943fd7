# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_llama with the real llama-server and a real model: an instance starts, is updated, and is removed."""

from __future__ import annotations

import json

import pytest

from ..fixtures.containers import ONE_LAYER_MORE

pytestmark = [pytest.mark.slow, pytest.mark.everyday]

CHAT = {"name": "chat", "port": 8080}
#: What the owner of a folder puts in the place of whatever root makes there, all the time; a folder of his own once the
#: program works, because the program would not find its way into it.
ATTACK = """
import glob, os, sys, time
from contextlib import suppress

folder, secret = sys.argv[1:]
os.chdir(folder)


def works():
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\\0")
        except OSError:
            continue
        if words[0].endswith(b"/llama-quantize") and any(word.endswith(b"/folder.gguf") for word in words):
            return True
    return False


def put(way, path):
    if way == "fifo":
        os.mkfifo(path)
    elif way == "folder":
        os.makedirs(f"{path}/new")
        os.symlink(secret, f"{path}/new/folder.gguf")
    else:
        os.symlink({"link": secret, "parent": "/etc/secrets"}[way], path)


number = 0
while True:
    for way in ("link", "fifo", "folder", "parent"):
        for name in (f".{way}.gguf.part", f"{way}.gguf"):
            if not os.path.lexists(name) or (way == "folder" and not works()):
                continue
            number += 1
            with suppress(OSError):  # Root was quicker.
                os.rename(name, f"away-{number}")
                put(way, name)
    time.sleep(0.001)
"""
PLAIN = {"name": "plain", "port": 8081, "speculation": "none"}


def test_a_check_of_a_bare_host_changes_nothing(service_host):
    played = service_host.run_role("--check", epyc_llama_instances=service_host.with_test_model(CHAT))
    assert played.returncode == 0, played.output
    services = played["Run the instances"]
    assert services["changed"] and "llama:llama-chat.service/active" in services["diff"]["changes"]["after"]
    assert service_host.run("ls /etc/systemd/system").count("llama") == 0


def test_it_serves_and_a_second_run_changes_nothing(service_host):
    service_host.serve(CHAT)
    assert service_host.fetch_status(8080, "/health") == 200
    assert service_host.run("systemctl is-enabled llama-chat.service") == "enabled\n"
    before = service_host.main_pid("chat")
    assert service_host.serve(CHAT, engine_is_installed=False).changed_results == {}
    assert service_host.main_pid("chat") == before


def test_a_completion_is_streamed(service_host):
    """The temperature is 0, because chance ended a short answer after one token now and then.

    A line may hold several tokens.
    """
    asked = [{"role": "user", "content": "Tell a story."}]
    body = {"messages": asked, "max_tokens": 48, "temperature": 0, "ignore_eos": True, "stream": True}
    status, text = service_host.send_request(8080, "/v1/chat/completions", body)
    assert status == 200
    lines = [line[len("data: ") :] for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]" and len(lines) > 5
    words = [json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines[:-1] if "choices" in line]
    assert "".join(words).strip()


def test_the_unit_is_closed(service_host):
    """The exposure that systemd computes goes from 0, which is closed, to 10."""
    said = service_host.run("systemd-analyze security --no-pager llama-chat.service")
    assert float(said.split("Overall exposure level for llama-chat.service:")[1].split()[0]) <= 1.5, said
    assert service_host.run("ps -o user= -p $(systemctl show -P MainPID llama-chat.service)").strip() != "root"


def test_only_what_changed_is_started_again(service_host):
    """A second instance is added, gets another context, and is removed; the first one runs on all the time."""
    service_host.serve(CHAT, PLAIN)
    before = service_host.main_pid("chat"), service_host.main_pid("plain")
    played = service_host.serve(CHAT, {**PLAIN, "context": 4096})
    assert "-8192" not in json.dumps(played.changed_results)
    assert service_host.main_pid("chat") == before[0] and service_host.main_pid("plain") not in (0, before[1])
    service_host.serve(CHAT)
    assert service_host.main_pid("chat") == before[0]
    assert service_host.main_pid("plain") == 0 and "llama-plain" not in service_host.run("ls /etc/systemd/system")


def test_a_unit_that_does_not_come_up_leaves_the_one_before(service_host):
    before = service_host.run("cat /etc/systemd/system/llama-chat.service")
    failing = {**CHAT, "extra_arguments": ONE_LAYER_MORE}
    played = service_host.run_role(epyc_llama_instances=service_host.with_test_model(failing))
    assert played.returncode == 2, played.output
    assert "error loading model: " in played.output, played.output
    assert "'blk.30.attn_norm.weight' not found" in played.output, played.output
    assert service_host.run("cat /etc/systemd/system/llama-chat.service") == before
    assert service_host.fetch_status(8080, "/health") == 200


def test_smaller_models_are_made_behind_walls(service_host):
    """The program never runs as root. A file that only its owner may read is read as him, and the new one is his."""
    folder = service_host.run("useradd --create-home ann; echo ~ann").strip() + "/my: models"
    service_host.run(f"install -d -o ann '{folder}'")
    service_host.run(f"install -o ann -m 600 {service_host.model} '{folder}/big.gguf'")
    # It refuses to work where it may do more than it should.
    program = service_host.binary.replace("server", "quantize")
    wary = f'#!/bin/sh\n[ "$(id -u)" != 0 ] && ! touch /srv/more "$HOME/more" && exec {program} "$@"\n'
    service_host.write_file("/opt/wary", wary.encode())
    service_host.run("chmod +x /opt/wary")
    pairs = (f"{folder}/big.gguf", f"{folder}/small.gguf"), (service_host.model, "/srv/small.gguf")
    asked = [{"source": one, "path": other, "type": "Q2_K", "requantize": True} for one, other in pairs]
    service_host.serve(CHAT, epyc_llama_quantized=asked, epyc_llama_quantize_binary="/opt/wary")
    said = service_host.run(f"stat -c '%U %a %n' '{folder}'/* '{folder}'/.[!.]* /srv/*.gguf /srv/.[!.]*", check=False)
    files = [f"ann 600 {folder}/big.gguf", f"ann 600 {folder}/small.gguf", "root 644 /srv/small.gguf"]
    assert said.splitlines() == files
    assert (
        service_host.serve(CHAT, epyc_llama_quantized=asked, epyc_llama_quantize_binary="/opt/wary").changed_results
        == {}
    )


def test_the_owner_of_the_folder_of_models_gets_no_file_of_root(service_host):
    """He renames what root makes, and puts a link, a FIFO or a folder there, while the real program works."""
    folder, secret = service_host.run("echo ~ann").strip() + "/attack", "/etc/secrets/link.gguf"
    service_host.run(f"install -d -o ann {folder}; install -d /etc/secrets; echo very secret >{secret}")
    service_host.run(f"chmod 600 {secret}; install -o ann -m 644 {service_host.model} {folder}/big.gguf")
    service_host.write_file("/opt/attack.py", ATTACK.encode())
    service_host.run(f"systemd-run --quiet --unit=attack --uid=ann python3 /opt/attack.py {folder} {secret}")
    asked = [
        {"source": f"{folder}/big.gguf", "path": f"{folder}/{name}.gguf", "type": "Q2_K", "requantize": True}
        for name in ("link", "fifo", "folder", "parent")
    ]
    program = service_host.binary.replace("server", "quantize")
    instances = service_host.with_test_model(CHAT)
    played = service_host.run_role(
        epyc_llama_instances=instances, epyc_llama_quantized=asked, epyc_llama_quantize_binary=program
    )
    assert service_host.run("systemctl is-active attack") == "active\n" and "Traceback" not in played.output
    service_host.run("systemctl stop attack")
    assert service_host.run(f"stat -c '%U %a' {secret}; cat {secret}; ls /etc/secrets") == (
        "root 600\nvery secret\nlink.gguf\n"
    )
    told = service_host.run(f"runuser -u ann -- grep -rls 'very secret' {folder}", check=False)
    assert told == "" and "away-" in service_host.run(f"ls {folder}"), played.output


def test_none_is_left(service_host):
    service_host.serve()
    assert "llama-" not in service_host.run("ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants")
    assert "llama-" not in service_host.run("systemctl list-units --all 'llama-*'")
