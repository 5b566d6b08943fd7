# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of an instance can be left out, and what its unit and its arguments are without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import removable_options
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.measured_instance import find_llama_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import UNIT_FOLDER
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

DRAFT = "--threads-batch-draft 2 --spec-type ngram-simple --spec-ngram-simple-size-n 3"
TEXT = (
    f"--model /m.gguf --port 8080 --cache-ram -1 --threads 8 --threads-batch 16 --cpu-mask 0xf --cpu-strict 1 {DRAFT}"
)
WORDS = f"/opt/llama-server {TEXT} --cache-type-k q8_0 --no-repack --metrics".split()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        host.service.tree.put("/proc/100/cmdline", "\0".join(WORDS))
        host.service.tree.put("/proc/100/environ", "PATH=/bin\0OMP_PROC_BIND=close\0GOMP_SPINCOUNT=100")
        file = f"{UNIT_FOLDER}/llama-chat.service"
        service = "[Service]\nAllowedCPUs=0-5\nCPUAffinity=\nNUMAPolicy=interleave\nNUMAMask=0-1\n"
        host.service.tree.put(file, host.service.tree.fs.read(file) + f"\n{service}")
        yield host


def test_what_an_instance_was_given_can_be_left_out(here: Measured) -> None:
    found = removable_options.list_removable_options(find_llama_instance(here.host(), "chat"), here.host())
    assert {one["name"]: one["arguments"] for one in found} == {
        "threads": ["--threads"],
        "batch threads": ["--threads-batch"],
        "CPU masks": ["--cpu-mask", "--cpu-strict"],
        "speculation": ["--threads-batch-draft", "--spec-type", "--spec-ngram-simple-size-n"],
        "KV cache types": ["--cache-type-k"],
        "repacking": ["--no-repack"],
        "OpenMP environment": ["GOMP_SPINCOUNT=", "OMP_PROC_BIND="],
        "memory policy": ["NUMAPolicy="],
        # An empty CPUAffinity= has systemd set none.
        "CPU set": ["AllowedCPUs="],
    }
    assert {one["class"] for one in found} == {"restart"} and all(one["settings"] == {} for one in found)


def test_the_arguments_without_a_flag_and_its_value() -> None:
    kept = removable_options.remove_flags(WORDS, ["--threads", "--cpu-mask", "--cpu-strict", "--no-repack"])
    assert kept[1:7] == ["--model", "/m.gguf", "--port", "8080", "--cache-ram", "-1"]
    assert kept[7:] == f"--threads-batch 16 {DRAFT} --cache-type-k q8_0 --metrics".split()
    assert removable_options.remove_flags(WORDS, []) == WORDS


def test_the_drop_in_of_a_unit() -> None:
    left_out = ["--threads", "OMP_PROC_BIND=", "GOMP_SPINCOUNT=", "NUMAPolicy=", "AllowedCPUs="]
    text = removable_options.render_drop_in(
        ["/opt/llama server", "--model", "/a%b.gguf", "--threads", "8"], left_out, "0-7"
    )
    assert text is not None and text.splitlines()[1:] == [
        "[Service]",
        "ExecStart=",
        'ExecStart="/opt/llama server" --model "/a%%b.gguf"',
        "NUMAPolicy=default",
        "NUMAMask=",
        "AllowedCPUs=0-7",
        "UnsetEnvironment=OMP_PROC_BIND GOMP_SPINCOUNT",
    ]
    assert removable_options.render_drop_in(WORDS, [], "0-7") is None


@pytest.mark.parametrize(
    ("left_out", "moves"),
    [(["--threads"], False), (["NUMAPolicy="], True), (["--numa"], True), (["OMP_PLACES="], False)],
)
def test_which_removed_words_may_move_memory(left_out: list[str], moves: bool) -> None:
    assert removable_options.may_move_memory_to_other_nodes(left_out) is moves
