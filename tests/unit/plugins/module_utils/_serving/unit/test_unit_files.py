# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unit files, against systemd itself: its own functions take command lines apart, and its own tool gives the score."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import gguf
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import (
    DraftProcess,
    InstancePlan,
    MemoryNeed,
    Placement,
    SlotBytes,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import needs_restart_for_new_text

# systemd's own parser

FIRST_SIGNAL_LINE = (
    r'-/usr/bin/timeout 4 /bin/sh -c "[ -z \"$$MAINPID\" ] || '
    r'{ kill \"$$MAINPID\" && exec tail -s 0.1 --pid=\"$$MAINPID\" -f /dev/null; }"'
)
PLACES = ("/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu")


class Systemd:
    """The functions with which systemd reads a line, from its own library.

    A command line goes through three of them: words are cut out and unquoted (config_parse_exec), specifiers such as %n
    are put in, and at the start of the process variables are. Flags are those that config_parse_exec hands over.
    """

    UNQUOTE_AND_CUNESCAPE = 1 << 5 | 1 << 1

    def __init__(self) -> None:
        found = [path for place in PLACES for path in glob.glob(f"{place}/systemd/libsystemd-shared-*.so")]
        assert found, "systemd's library libsystemd-shared is not on this machine, so quoting cannot be checked"
        self.lib = ctypes.CDLL(found[0])
        self.lib.replace_env_argv.restype = ctypes.POINTER(ctypes.c_char_p)
        self.lib.replace_env_argv.argtypes = [ctypes.POINTER(ctypes.c_char_p)] * 2

    def words(self, line: str) -> list[bytes]:
        """Cut a line into words, and put specifiers in; no letter is one, so that a single % is an error."""
        rest, words = ctypes.c_char_p(line.encode()), []
        while True:
            word = ctypes.c_char_p()
            done = self.lib.extract_first_word(ctypes.byref(rest), ctypes.byref(word), None, self.UNQUOTE_AND_CUNESCAPE)
            assert done >= 0, f"systemd cannot read {line!r}"
            if not done:
                return words
            text = ctypes.c_char_p()
            table = (ctypes.c_void_p * 3)()
            done = self.lib.specifier_printf(word, ctypes.c_size_t(1 << 20), table, None, None, ctypes.byref(text))
            assert done >= 0, f"systemd finds a strange specifier in {line!r}"
            words.append(text.value or b"")

    def command(self, line: str) -> list[bytes]:
        """Return what a process would be started with: after the words, the variables."""
        words = self.words(line)
        argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        environment = (ctypes.c_char_p * 2)(b"HOME=/elsewhere", None)
        result = self.lib.replace_env_argv(argv, environment)
        found = []
        while result[len(found)] is not None:
            found.append(result[len(found)] or b"")
        return [words[0], *found[1:]]


@pytest.fixture(scope="module")
def systemd() -> Systemd:
    return Systemd()


#: What no file name and no unit file can hold is refused before; everything else may come.
WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
HARD = [
    "",
    " ",
    ";",
    "%",
    "%n",
    "%%",
    "$HOME",
    "${HOME}",
    "$$",
    '"',
    "'",
    "\\",
    "\\n",
    "a b",
    "#",
    "-",
    "é",
    "\t",
    "\n",
]


@given(words=st.lists(st.one_of(WORDS, st.sampled_from(HARD)), max_size=6))
def test_systemd_reads_every_command_line_as_it_was_meant(systemd: Systemd, words: list[str]) -> None:
    line = unit_texts.format_unit_command_line("/opt/a b/100%/llama-server", words)
    assert "\n" not in line
    assert systemd.command(line) == [b"/opt/a b/100%/llama-server", *(word.encode() for word in words)]


@given(text=st.one_of(WORDS, st.sampled_from(HARD)))
def test_systemd_reads_every_variable_as_it_was_meant(systemd: Systemd, text: str) -> None:
    assert systemd.words(unit_texts.quote_unit_word(f"NAME={text}", escape_variables=False)) == [
        f"NAME={text}".encode()
    ]


def test_the_parser_that_holds_it_can_fail(systemd: Systemd) -> None:
    assert systemd.command("/bin/a $HOME ${HOME} \"%%\" 'b c' d\\x20e") == [
        b"/bin/a", b"/elsewhere", b"/elsewhere", b"%", b"b c", b"d e",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="strange specifier"):
        systemd.words("/bin/a %n")


# Units


def service(folder: Path = Path("/srv"), rpc: bool = False, load: str = "mmap", **options: Any) -> InstancePlan:
    raw = {"name": "chat", "binary": "/opt/llama/llama-server", "model": f"{folder}/m.gguf", "port": 8080, **options}
    seat = Placement([1, 2, 3], [0, 1, 2, 3], [0, 1], "interleave", "gomp")
    seat.http_cpus = (0,)
    seat.environment = {"GOMP_CPU_AFFINITY": "1 2 3"}
    model = gguf_model.Model([gguf.GgufFile(f"{folder}/m.gguf")])
    seat_of_draft = Placement([4], [4], [1], "bind", "gomp")
    other = DraftProcess("llama-chat-rpc.service", seat_of_draft, ["-p", "50052"], MemoryNeed(1, 2, 3)) if rpc else None
    parsed = Options.parse(raw)
    staged = [model] if parsed.hugepages == "hugetlbfs" else []
    return InstancePlan(parsed, seat, MemoryNeed(1, 2, 3), {"load": load}, other, [model], staged, {}, [])


def lines(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def main_unit(arguments: tuple[str, ...] = (), **options: Any) -> str:
    return unit_texts.render_llama_units(service(**options), arguments)["/etc/systemd/system/llama-chat.service"]


def test_a_unit_is_in_the_slice_of_its_partition() -> None:
    planned = service(rpc=True)
    assert [lines(text, "Slice") for text in unit_texts.render_llama_units(planned, ()).values()] == [[], []]
    assert planned.rpc
    planned.placement.slice = planned.rpc.placement.slice = "llama.slice"
    assert [lines(text, "Slice") for text in unit_texts.render_llama_units(planned, ()).values()] == [
        ["llama.slice"]
    ] * 2


def test_a_unit_says_where_it_sits() -> None:
    text = main_unit(("-m", "/srv/m.gguf", "--alias", "my model"))
    assert lines(text, "ExecStart") == ['/opt/llama/llama-server -m /srv/m.gguf --alias "my model"']
    assert lines(text, "AllowedCPUs") == ["0-3"]
    assert lines(text, "CPUAffinity") == []
    assert (lines(text, "NUMAPolicy"), lines(text, "NUMAMask")) == (["interleave"], ["0-1"])
    assert lines(text, "Environment") == ['"GOMP_CPU_AFFINITY=1 2 3"']
    assert (lines(text, "After"), lines(text, "Wants")) == (["network.target sovereign-epyc.service"], [])
    assert lines(text, "DynamicUser") == ["yes"] and lines(text, "User") == []
    assert lines(text, "LimitMEMLOCK") == [] and lines(text, "LoadCredential") == []


def test_the_steps_of_start_and_stop() -> None:
    text = main_unit(drain_timeout=30, stop_timeout=4, start_timeout=600, api_key_file="/etc/llama/100%.keys")
    ours = "/usr/sbin/sovereign-epyc llama"
    credential = "--credential /run/credentials/llama-chat.service/api-key"
    assert lines(text, "ExecStartPre") == [
        f"+{ours} place /srv/m.gguf --policy interleave --nodes 0-1",
        f'-+{ours} room {service().need.total} --nodes 0-1 --files "[\\"/srv/m.gguf\\"]"',
    ]
    assert lines(text, "ExecStartPost") == [
        f"+{ours} await http://127.0.0.1:8080 --timeout 600 {credential}",
        f"+{ours} answer http://127.0.0.1:8080 --task completion --timeout 60 {credential}",
        f"-+{ours} home $MAINPID --cpus 0",
    ]
    assert lines(text, "ExecStop") == [
        f"-+{ours} drain http://127.0.0.1:8080 --timeout 30 {credential}",
        FIRST_SIGNAL_LINE,
    ]
    assert lines(text, "LoadCredential") == ["api-key:/etc/llama/100%%.keys"]
    assert (lines(text, "TimeoutStartSec"), lines(text, "TimeoutStopSec")) == (["630"], ["34"])
    without = lines(main_unit(), "ExecStop")[0]
    assert without == f"-{ours} drain http://127.0.0.1:8080 --timeout 60", "what needs no key needs no root"
    without = lines(main_unit(task="embedding", start_timeout=9), "ExecStartPost")[:2]
    assert without == [
        f"{ours} await http://127.0.0.1:8080 --timeout 9",
        f"{ours} answer http://127.0.0.1:8080 --task embedding --timeout 60",
    ]


@pytest.mark.parametrize(("host", "endpoint"), [("127.0.0.1", "127.0.0.1:8080"), ("::", "[::]:8080")])
def test_a_server_that_cannot_follow_every_other_waits_for_its_port(host: str, endpoint: str) -> None:
    """It waits as the user of the unit, because connections of another user are in the way for longer."""
    one = service(host=host)
    assert not any("llama port" in line for line in lines(main_unit(host=host), "ExecStartPre"))
    one.port_reuse = "port"
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    ours = "/usr/sbin/sovereign-epyc llama"
    assert lines(text, "ExecStartPre")[-1] == f"{ours} port {endpoint} --reuse port --timeout 75"
    before = text.replace(f"ExecStartPre={ours} port {endpoint} --reuse port --timeout 75\n", "")
    assert before != text and not needs_restart_for_new_text(before, text)


def test_a_watchdog_is_a_unit_of_its_own_that_nothing_waits_for() -> None:
    text = main_unit(watchdog=300, api_key_file="/etc/llama/100%.keys")
    line = lines(text, "ExecStartPost")[-1]
    assert line.startswith(
        "-+/usr/bin/systemd-run --quiet --collect --no-block --unit=sovereign-epyc-watchdog-chat.service "
        "--property=BindsTo=llama-chat.service --property=After=llama-chat.service --property=Restart=on-failure "
        "--property=CPUAffinity=0 "
    )
    assert line.endswith(
        " /usr/sbin/sovereign-epyc llama watch http://127.0.0.1:8080 --unit llama-chat.service "
        '--timeout 300 --key-file "/etc/llama/100%%.keys"'
    )
    # Its server may be hostile, and it runs as root: it reaches this host only, where the server listens there alone.
    assert " --property=IPAddressDeny=any --property=IPAddressAllow=localhost " in line
    elsewhere = lines(main_unit(watchdog=300, host="10.1.2.3"), "ExecStartPost")[-1]
    assert "NoNewPrivileges=yes" in elsewhere and "IPAddressDeny" not in elsewhere


@pytest.mark.parametrize("host", ["10.1.2.3", "0.0.0.0", "::", "llm.example.com"])
def test_an_address_that_comes_late_is_waited_for(host: str) -> None:
    """The server ends when it cannot listen there, and after some such starts systemd gives up for good."""
    text = main_unit(host=host)
    assert lines(text, "Wants") == ["network-online.target"]
    assert lines(text, "After") == ["network-online.target sovereign-epyc.service"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("10.1.2.3", "http://10.1.2.3:8080"),
    ],
)
def test_how_this_host_reaches_the_server(host: str, url: str) -> None:
    text = main_unit(host=host)
    assert f"await {url} " in text
    assert lines(text, "IPAddressDeny") == (["any"] if host == "127.0.0.1" else [])


def test_a_server_exchanges_packets_with_its_clients_only() -> None:
    text = main_unit(host="10.1.2.3", clients=["10.0.0.2", "fd00::/64"], rpc_workers=["10.20.0.1:50052"])
    assert lines(text, "IPAddressDeny") == ["any"]
    assert lines(text, "IPAddressAllow") == ["localhost", "10.1.2.3", "10.0.0.2", "fd00::/64", "10.20.0.1"]
    assert lines(main_unit(host="0.0.0.0", clients=["10.0.0.2"]), "IPAddressAllow") == ["localhost", "10.0.0.2"]
    with pytest.raises(BadRequest, match="clients has 'gateway'"):
        main_unit(clients=["gateway"])
    with pytest.raises(BadRequest, match="with clients, name an address"):
        main_unit(host="head.example.com", clients=["10.0.0.2"])


def test_files_on_a_hugetlbfs_are_staged() -> None:
    text = main_unit(hugepages="hugetlbfs")
    stage = (
        "+/usr/sbin/sovereign-epyc llama stage /srv/m.gguf /dev/hugepages/llama-chat --nodes 0-1 --policy interleave"
    )
    room, staged = lines(text, "ExecStartPre")
    assert staged == stage
    assert room.startswith("-+/usr/sbin/sovereign-epyc llama room ")
    assert lines(text, "RequiresMountsFor") == ["/srv /dev/hugepages"]


@pytest.mark.parametrize(("hugepages", "verb"), [("none", "place"), ("hugetlbfs", "stage")])
def test_a_model_in_many_files_is_brought_to_its_nodes_once(hugepages: str, verb: str) -> None:
    """Each call takes all files of the model: with a line for each of 48 files, 2304 would be looked at."""
    parts = [f"/srv/m-{number:05d}-of-00048.gguf" for number in range(1, 49)]
    one = service(hugepages=hugepages)
    one.files = {part: [1, 1] for part in [*parts, "/srv/draft.gguf"]}
    one.staged = {part: f"/dev/hugepages/llama-chat/{part[5:]}" for part in parts} if hugepages == "hugetlbfs" else {}
    one.mapped = [] if one.staged else list(one.files)
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    said = [line.split()[2:4] for line in lines(text, "ExecStartPre") if " room " not in line]
    assert said == [[verb, parts[0]], *([] if one.staged else [[verb, "/srv/draft.gguf"]])]


def test_rows_are_read_onto_their_nodes_for_the_threads_of_each_model() -> None:
    one = service(memory="rows")
    one.placement.policy = "rows"
    one.expect = {"rows": {"/srv/m.gguf": 32, "/srv/draft.gguf": 8}}
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    rows = "+/usr/sbin/sovereign-epyc llama rows"
    assert lines(text, "ExecStartPre")[1:] == [
        f"{rows} /srv/m.gguf --threads 32 --nodes 0-1",
        f"{rows} /srv/draft.gguf --threads 8 --nodes 0-1",
    ]
    assert lines(text, "NUMAPolicy") == []


def test_what_is_read_into_memory_needs_no_placing() -> None:
    assert [line.split()[2] for line in lines(main_unit(load="none"), "ExecStartPre")] == ["room"]
    assert lines(main_unit(load="mlock"), "LimitMEMLOCK") == ["infinity"]


@pytest.mark.parametrize(
    ("policy", "hugepages", "has_room"),
    [
        ("interleave", "none", True),
        ("rows", "none", True),
        ("distribute", "none", True),
        # The kernel drops page cache by itself where pages are bound to a node, or where there is one node.
        ("bind", "none", False),
        ("local", "none", False),
        # Pages of a pool are free by themselves.
        ("interleave", "pool", False),
    ],
)
def test_nodes_get_room_where_pages_would_go_elsewhere(policy: str, hugepages: str, has_room: bool) -> None:
    one = service(hugepages=hugepages)
    one.placement.policy = policy
    one.expect = {"rows": {}}
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    room = [line for line in lines(text, "ExecStartPre") if " room " in line]
    assert bool(room) == has_room
    if has_room:
        # A server without room is slower, and starts all the same.
        assert room[0].startswith("-+")
        assert room[0].split()[3] == str(one.need.total)


def test_threads_that_begin_at_home_need_not_be_sent_there() -> None:
    one = service()
    one.placement.affinity = (0,)
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    assert lines(text, "CPUAffinity") == ["0"] and "llama home" not in text


@pytest.mark.parametrize("folder", ["/home", "/root", "/tmp/models", "/var/tmp"])
def test_a_file_in_a_hidden_folder_is_shown(folder: str) -> None:
    assert lines(main_unit(folder=Path(folder)), "BindReadOnlyPaths") == [folder]
    assert lines(main_unit(folder=Path("/homely")), "BindReadOnlyPaths") == []


def test_settings_of_the_users_own_come_last_and_in_their_section() -> None:
    own = {
        "StateDirectory": "llama-chat",
        "MemoryMax": "600G",
        "BindPaths": ["/data/a", "/data/b:/mnt"],
        "ProtectHome": True,
        "IOWeight": 50,
        "OnFailure": "notify@%n.service",
        "ConditionPathIsMountPoint": "/srv",
    }
    text = main_unit(unit_settings=own)
    unit, dummy, rest = text.partition("[Service]\n")
    assert unit.rstrip().splitlines()[-2:] == ["OnFailure=notify@%n.service", "ConditionPathIsMountPoint=/srv"]
    assert rest.partition("\n\n[Install]")[0].splitlines()[-6:] == [
        "StateDirectory=llama-chat",
        "MemoryMax=600G",
        "BindPaths=/data/a",
        "BindPaths=/data/b:/mnt",
        "ProtectHome=yes",
        "IOWeight=50",
    ]


def test_prompts_are_saved_before_the_first_signal_and_restored_once_it_serves() -> None:
    one = service(slot_files="1GiB", slots=2, drain_timeout=30, stop_timeout=4, extra_arguments=["--jinja"])
    one.parameters.update(slot_files="/var/lib/llama-chat", extra=["--jinja"])
    one.slot_bytes = SlotBytes(5000, 1000, 4096)

    def render(**parameters: Any) -> str:
        one.parameters.update(parameters)
        units = unit_texts.render_llama_units(one, [], {"/opt/llama/llama-server": [1, 2]})
        return units["/etc/systemd/system/llama-chat.service"]

    text, ours = render(), "/usr/sbin/sovereign-epyc llama"
    assert (lines(text, "StateDirectory"), lines(text, "StateDirectoryMode")) == (["llama-chat"], ["0700"])
    restore = lines(text, "ExecStartPost")[2]
    assert restore.startswith(f"-+{ours} restore-slots http://127.0.0.1:8080 /var/lib/llama-chat --options "), restore
    assert '--files "[\\"/opt/llama/llama-server\\", \\"/srv/m.gguf\\"]" --timeout 300' in restore, restore
    assert lines(text, "ExecStop")[:2] == [
        f"-{ours} drain http://127.0.0.1:8080 --timeout 30",
        f"-{ours} save-slots http://127.0.0.1:8080 /var/lib/llama-chat --limit 1073741824 --slot-bytes 5000,1000 "
        "--timeout 10",
    ]
    assert lines(text, "TimeoutStopSec") == ["44"]
    one.slot_bytes = SlotBytes(0, 10**6, 4096)
    assert lines(render(), "TimeoutStopSec") == ["49"], "1 GiB is written with 200 MB/s"
    digests = {
        word
        for more in ({"port": 9}, {"context": 9}, {"cache_type_k": "q8_0"}, {"experts": ("qwen3", 2)}, {"extra": []})
        for word in lines(render(**more), "ExecStartPost")[2].split()
        if re.fullmatch(r"[0-9a-f]{16}", word)
    }
    assert len(digests) == 4, "port and context change nothing in a cache"


def test_the_draft_of_its_own_comes_and_goes_with_the_model() -> None:
    files = unit_texts.render_llama_units(service(rpc=True), [])
    main, rpc = (files[f"/etc/systemd/system/llama-chat{part}.service"] for part in ("", "-rpc"))
    assert lines(main, "Requires") == ["llama-chat-rpc.service"]
    assert lines(main, "After") == ["network.target sovereign-epyc.service llama-chat-rpc.service"]
    assert lines(rpc, "PartOf") == ["llama-chat.service"] and "[Install]" not in rpc
    assert lines(rpc, "ExecStart") == ["/opt/llama/ggml-rpc-server -p 50052"]
    assert (lines(rpc, "AllowedCPUs"), lines(rpc, "NUMAPolicy"), lines(rpc, "NUMAMask")) == (["4"], ["bind"], ["1"])
    assert lines(rpc, "IPAddressAllow") == ["localhost"]


# systemd-analyze


def analyze(*words: str) -> str:
    try:
        done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.fail("systemd-analyze is not on this machine, so units cannot be checked")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


DRAFT = {"speculation": "draft", "draft_model": "/srv/d.gguf", "rpc_binary": "/bin/true"}


@pytest.fixture(params=["loopback", "network"])
def units(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Units of an instance, with programs that are on this machine in place of ours: verify looks for them."""
    if request.param == "loopback":
        one = service(rpc=True, api_key_file="/etc/llama.keys", binary="/bin/true", **DRAFT)
    else:
        one = service(tmp_path, host="0.0.0.0", user="daemon", load="mlock", binary="/bin/true")
        one.placement.affinity = (0,)
    paths = []
    for path, text in unit_texts.render_llama_units(one, ["--alias", 'a "b" %n $HOME ;', ";", "'"]).items():
        paths.append(str(tmp_path / os.path.basename(path)))
        Path(paths[-1]).write_text(text.replace(unit_texts.HOST_TOOL, "/bin/true"))
    return paths


def test_every_unit_is_well_sheltered(units: list[str]) -> None:
    for path in units:
        text = analyze("security", "--offline=true", "--no-pager", path)
        score = re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)
        assert score and float(score.group(1)) <= 1.5, text


def test_systemd_has_nothing_to_say_of_any_unit(units: list[str]) -> None:
    assert analyze("verify", "--man=no", *units) == ""
