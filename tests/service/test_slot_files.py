# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prompts that survive restarts of the real server: the server itself counts the tokens that it need not read again."""

from __future__ import annotations

import json

import pytest

from ..fixtures.containers import wait_until

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080, "context": 2048, "slots": 2, "speculation": "none", "slot_files": "64MiB"}
#: The tests start the server more often than a host in these minutes.
CHAT["restart_limit"] = 1000
FOLDER = "/var/lib/private/llama-chat"
PROMPTS = [
    " ".join(f"The {thing} of number {number} is kept in room {number * 7}." for number in range(60))
    for thing in ("red box", "old lamp")
]


@pytest.fixture(scope="module", autouse=True)
def chat_instance(service_host):
    service_host.serve(CHAT)


def ask(service_host, number=0, key=""):
    """Have a prompt continued, and return the text, and how many tokens were read and how many were already there."""
    body = {"prompt": PROMPTS[number], "n_predict": 8, "temperature": 0, "seed": 1, "cache_prompt": True}
    answer = service_host.fetch_json(8080, "/completion", body, key)
    return answer["content"], answer["timings"]["prompt_n"], answer["timings"]["cache_n"]


def restart_and_read_journal(service_host, command="systemctl restart llama-chat.service"):
    mark = service_host.run("date +%s.%N").strip()
    service_host.run(command)
    return service_host.run(f"journalctl --sync; journalctl --output=cat --unit=llama-chat.service --since=@{mark}")


def list_folder(service_host):
    return service_host.run(f"ls {FOLDER}").split()


def restart_without_prompts(service_host):
    service_host.run(f"systemctl stop llama-chat.service; rm -f {FOLDER}/slot-*; systemctl start llama-chat.service")


def fill_slots(service_host):
    """Start a server that knows no prompt, and have it read both; return the texts."""
    restart_without_prompts(service_host)
    answers = [ask(service_host, number) for number in range(2)]
    assert all(read > 700 and known < 30 for dummy, read, known in answers), answers
    return [text for text, dummy, more in answers]


def test_prompts_survive_a_restart(service_host):
    texts = fill_slots(service_host)
    journal = restart_and_read_journal(service_host)
    assert "2 prompts with " in journal and "are saved in /var/lib/llama-chat" in journal, journal
    assert "are restored" in journal, journal
    for number, text in enumerate(texts):
        again, read, known = ask(service_host, number)
        assert again == text and read <= 2 and known > 700, (read, known)
    assert list_folder(service_host) == ["server.json"], "a file is read only once, and no prompt stays on the disk"


def test_a_prompt_that_was_restored_and_not_used_is_saved_again(service_host):
    fill_slots(service_host)
    restart_and_read_journal(service_host)
    restart_and_read_journal(service_host)
    assert [ask(service_host, number)[1] <= 2 for number in range(2)] == [True, True]


def test_only_the_server_can_read_the_files(service_host):
    fill_slots(service_host)
    service_host.run("systemctl stop llama-chat.service")
    modes = service_host.run(f"stat --format='%a %n' {FOLDER} {FOLDER}/*")
    assert modes.split("\n")[0] == f"700 {FOLDER}", modes
    assert {line.split()[0] for line in modes.splitlines()[1:]} == {"600"}, modes
    service_host.run("systemctl start llama-chat.service")


def test_prompts_survive_a_play_with_another_option_and_not_one_with_other_values_in_the_cache(service_host):
    fill_slots(service_host)
    before = service_host.main_pid("chat")
    service_host.serve({**CHAT, "alias": "another"})
    assert service_host.main_pid("chat") != before
    assert ask(service_host)[1] <= 2
    service_host.serve({**CHAT, "cache_type_k": "q8_0"})
    journal = service_host.run("journalctl --sync; journalctl --output=cat --unit=llama-chat.service")
    assert "is left out: it was saved by a server with other options." in journal.rpartition("Stopping")[2], journal
    assert ask(service_host)[1] > 700
    service_host.serve(CHAT)


def test_a_larger_limit_needs_no_restart_and_no_limit_removes_the_folder(service_host):
    service_host.run("systemctl is-active llama-chat.service")
    before = service_host.main_pid("chat")
    service_host.serve({**CHAT, "slot_files": "65MiB"})
    assert service_host.main_pid("chat") == before
    service_host.serve({key: value for key, value in CHAT.items() if key != "slot_files"})
    assert service_host.run(f"ls -d {FOLDER} /var/lib/llama-chat", check=False) == ""
    service_host.serve(CHAT)


def test_a_killed_server_starts_without_prompts(service_host):
    fill_slots(service_host)
    restart_and_read_journal(service_host)
    before = service_host.main_pid("chat")
    service_host.run("systemctl kill --signal=KILL llama-chat.service")
    wait_until(lambda: service_host.main_pid("chat") not in (0, before))
    wait_until(lambda: service_host.run("systemctl is-active llama-chat.service", check=False) == "active\n")
    assert ask(service_host)[1] > 700


@pytest.mark.parametrize("damage", ["flipped", "short", "torn", "note"])
def test_a_damaged_file_is_left_out(service_host, damage):
    text = fill_slots(service_host)[0]
    service_host.run("systemctl stop llama-chat.service")
    name = next(
        name
        for name in list_folder(service_host)
        if name.endswith(".json") and name != "server.json" and holds_first_prompt(service_host, name)
    )
    file = f"{FOLDER}/{name.replace('.json', '.kv')}"
    middle = int(service_host.run(f"stat --format=%s {file}")) // 2
    service_host.run(
        {
            "flipped": f"printf '\\377\\377\\377\\377' | dd of={file} bs=1 seek={middle} conv=notrunc",
            "short": f"truncate --size={middle} {file}",
            "torn": f"mv {file} {file[:-3]}.part",
            "note": f"truncate --size=20 {FOLDER}/{name}",
        }[damage]
    )
    journal = restart_and_read_journal(service_host, "systemctl start llama-chat.service")
    assert "1 prompt with " in journal and " is left out: " in journal, journal
    assert list_folder(service_host) == ["server.json"]
    again, read, dummy = ask(service_host)
    assert again == text and read > 700
    assert ask(service_host, 1)[1] <= 2, "the file of the other slot is whole"


def holds_first_prompt(service_host, name):
    """Return whether a note is on the slot of the first prompt, which was used before the other."""
    notes = [json.loads(service_host.run(f"cat {FOLDER}/{other}")) for other in ("slot-0.json", "slot-1.json")]
    first = min(notes, key=lambda note: note["order"])
    return name == f"slot-{first['slot']}.json"


def test_a_file_of_another_model_is_left_out(service_host):
    """The other model has the same shape and other weights, so that the server itself would take the file."""
    service_host.run(f"cp {service_host.model} /var/lib/other.gguf")
    fill_slots(service_host)
    service_host.serve({**CHAT, "model": "/var/lib/other.gguf"})
    journal = service_host.run("journalctl --sync; journalctl --output=cat --unit=llama-chat.service")
    assert "it was saved by a server with another /" in journal.rpartition("Stopping")[2], journal
    assert ask(service_host)[1] > 700
    # The file of the model is replaced while the server runs, which a play does not know.
    service_host.run("cp /var/lib/other.gguf /var/lib/next.gguf && mv /var/lib/next.gguf /var/lib/other.gguf")
    journal = restart_and_read_journal(service_host)
    assert "it was saved by a server with another /var/lib/other.gguf" in journal, journal
    assert ask(service_host)[1] > 700
    service_host.serve(CHAT)


def test_what_is_too_large_is_not_saved(service_host):
    service_host.serve({**CHAT, "slot_files": "24MiB"})
    fill_slots(service_host)
    journal = restart_and_read_journal(service_host)
    assert "slot_files has room for " in journal and "1 prompt with " in journal, journal
    assert ask(service_host, 1)[1] <= 2, "the slot that was used last is saved first"
    service_host.serve(CHAT)


def test_with_a_key_the_hooks_lose_their_rights_before_they_touch_the_folder(service_host):
    service_host.run("install -d -m 700 /etc/llama && install -m 600 /dev/stdin /etc/llama/keys", text="secret\n")
    service_host.serve({**CHAT, "api_key_file": "/etc/llama/keys"})
    restart_without_prompts(service_host)
    assert ask(service_host, key="secret")[1] > 700
    journal = restart_and_read_journal(service_host)
    assert "are restored" in journal or "is restored" in journal, journal
    assert ask(service_host, key="secret")[1] <= 2
    service_host.run("systemctl stop llama-chat.service")
    owners = service_host.run(f"stat --format=%u {FOLDER} {FOLDER}/*").split()
    assert len(set(owners)) == 1 and "0" not in owners, owners
    service_host.run("systemctl start llama-chat.service")
    service_host.serve(CHAT)


def test_a_folder_of_unit_settings_is_there_in_the_first_run_and_gone_with_the_instance(service_host):
    """The trial neither needs nor makes the folder, so a refused instance leaves none."""
    own = {"name": "own", "port": 8081, "speculation": "none", "unit_settings": {"StateDirectory": "llama-own"}}
    own["extra_arguments"] = ["--slot-save-path", "/var/lib/llama-own/"]
    folders = "ls -d /var/lib/llama-own /var/lib/private/llama-own"
    service_host.expect_refusal(CHAT, {**own, "extra_arguments": [*own["extra_arguments"], "--no-such-flag"]})
    assert service_host.run(folders, check=False) == ""
    played = service_host.run_role("--check", epyc_llama_instances=service_host.with_test_model(CHAT, own))
    assert played.returncode == 0, played.output
    assert service_host.run(folders, check=False) == ""
    service_host.serve(CHAT, own)
    owner = service_host.run("stat --format=%u /var/lib/private/llama-own")
    assert service_host.fetch_status(8081, "/slots/0?action=save", {"filename": "mine"}) == 200
    service_host.serve(CHAT, {**own, "alias": "another"})
    assert service_host.run("stat --format=%u /var/lib/private/llama-own") == owner
    assert service_host.fetch_status(8081, "/slots/0?action=restore", {"filename": "mine"}) == 200
    service_host.serve(CHAT, epyc_llama_purge=True)
    assert service_host.run(folders, check=False) == ""


def test_removing_the_instance_removes_its_prompts(service_host):
    fill_slots(service_host)
    other = {"name": "other", "port": 8082, "speculation": "none"}
    service_host.serve(other, epyc_llama_purge=True)
    assert service_host.run("ls -d /var/lib/llama-chat /var/lib/private/llama-chat", check=False) == ""
