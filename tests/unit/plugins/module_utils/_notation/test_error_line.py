# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line that says why, in the output of a program and in the journal of a unit."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._notation import error_line

START = "Starting llama-chat.service - llama-server chat..."
END = "llama-chat.service: Control process exited, code=exited, status=1/FAILURE"
FAILED = "Failed to start llama-chat.service - llama-server chat."
#: What llama-server of build 11434 says of a file whose architecture it does not know.
UNKNOWN = """\
0.00.001.745 I srv  llama_server: initializing ...
0.00.004.553 W srv  llama_server: security: no API key is set and CORS allows all origins
0.00.073.149 I srv    load_model: loading model 'arch.gguf'
{}0.00.739.456 E llama_model_load: error loading model: unknown model architecture: 'lalma'
0.00.754.061 E llama_model_load_from_file_impl: failed to load model
0.00.754.067 E cmn  common_init_: failed to load model 'arch.gguf'
0.00.754.075 I srv    operator(): operator(): cleaning up before exit...
0.00.757.226 E srv  llama_server: exiting due to model loading error
http://127.0.0.1:8080 will not serve: its process 12 has ended. The journal of the unit says why.
"""
#: What a build says before that when it fits a model into the memory of GPUs.
FITTING = "0.00.700.000 E common_fit_params: encountered an error while trying to fit params to free device memory\n"
ARCHITECTURE = "llama_model_load: error loading model: unknown model architecture: 'lalma'"
NO_ANSWER = "http://127.0.0.1:8080 does not serve: 3 tokens were requested of it, and /completion broke off."
TRACEBACK = "(EngineCore pid=7) pydantic.ValidationError: no such method"
LATE = "http://127.0.0.1:8080 does not serve after 5 s: it is reading the model."
USAGE = ["Usage:", " kill [options] <pid> [...]", "tail: invalid PID: ''"]


@pytest.mark.parametrize(
    ("out", "err", "sentence"),
    [
        ("", "0.00.042.968 E Failed to connect to 127.0.0.1:1\nerror: invalid argument: --foo\n", "--foo."),
        ("error: unknown argument: --foo\n\nusage: llama-server\n  an error in the manual\n", "", "--foo."),
        ("", "0.01.000.000 E failed to load model\n0.01.000.000 I bye\n", "failed to load model."),
        ("", "one\nlast words\n", "last words."),
        ("", "", "it printed nothing."),
    ],
)
def test_the_last_line_of_an_output_that_says_why(out: str, err: str, sentence: str) -> None:
    assert error_line.find_last_error_line(out, err).endswith(sentence)


@pytest.mark.parametrize(
    ("journal", "reason"),
    [
        ([START, *UNKNOWN.format("").splitlines(), END, FAILED], ARCHITECTURE),
        ([START, *UNKNOWN.format(FITTING).splitlines(), END, FAILED], ARCHITECTURE),
        # The unit has been started again meanwhile.
        (
            [START, *UNKNOWN.format("").splitlines(), END, FAILED, START, "0.00.001.745 I srv  initializing"],
            ARCHITECTURE,
        ),
        # The reason of an earlier start is another one.
        ([START, "0.00.001.000 E an earlier reason", FAILED, START, *UNKNOWN.format("").splitlines()], ARCHITECTURE),
        ([START, "serves", "GGML_ASSERT(n_ctx > 0) failed", "#9  0x0000 in ?? ()", NO_ANSWER, *USAGE, END], NO_ANSWER),
        ([START, "GGML_ASSERT(n_ctx > 0) failed", "#9  0x0000 in ?? ()", END], "GGML_ASSERT(n_ctx > 0) failed"),
        (
            [START, "Traceback (most recent call last):", "  File", "ValueError: no method: broken", END],
            "ValueError: no method: broken",
        ),
        (
            [START, "http://127.0.0.1:8080 does not serve after 5 s: it is reading the model.", END],
            "http://127.0.0.1:8080 does not serve after 5 s: it is reading the model.",
        ),
        ([START, "words", END, FAILED], ""),
        ([], ""),
    ],
)
def test_the_line_of_a_journal_that_says_why(journal: list[str], reason: str) -> None:
    assert error_line.find_reason_line(journal) == reason
