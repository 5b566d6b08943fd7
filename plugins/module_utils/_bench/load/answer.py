# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One request of a measurement, and what its answer says: what the server tells, and when each piece of text came.

The server counts tokens and the time it computed; only the client sees when text arrives. A server that speculates
sends several tokens at once, so the time per token and the gaps between pieces are two things and are kept apart.
Nothing is tried again: an answer that is not exactly what was asked for is an error.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import closing

from ..._errors import TuningError
from ..._serving.hooks import stream
from .completion_api import LLAMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Union

    from .completion_api import Llama, Vllm
    from .prompts import Prompt

    Api = Union[Llama, Vllm]
    #: A record of the run document.
    Sample = dict[str, Any]

#: Seconds that one answer may take.
LIMIT = 600.0
#: What says where in a run a sample belongs.
WHERE = ("round", "arm", "start")


class Server:
    """Where a server listens, a key that it takes, the seconds that one answer may take, and how it is asked."""

    __slots__ = ("api", "clock", "key", "limit", "url")

    def __init__(
        self, url: str, key: str | None = None, limit: float = LIMIT, clock: Any = time, api: Api = LLAMA
    ) -> None:
        self.api = api
        self.url = url.rstrip("/")
        self.key = key
        self.limit = limit
        self.clock = clock


class Answer:
    """A whole answer. ``begun``, ``chunks`` and ``ended`` are seconds of the clock, the last of them when it was whole.

    ``chunks`` holds the arrival of each piece of text, ``timings`` tokens (``_n``) and milliseconds (``_ms``), as the
    server tells them where it does.
    """

    __slots__ = ("begun", "chunks", "ended", "prompt", "text", "timings")

    def __init__(
        self,
        prompt: Prompt,
        begun: float,
        chunks: Sequence[float],
        ended: float,
        timings: Mapping[str, float],
        text: str = "",
    ) -> None:
        self.prompt = prompt
        self.begun = begun
        self.chunks = chunks
        self.ended = ended
        self.timings = timings
        self.text = text

    @property
    def predicted(self) -> int:
        """The generated tokens."""
        return round(self.timings["predicted_n"])

    @property
    def drafted(self) -> int:
        """The tokens that were guessed, 0 where the server does not speculate."""
        return round(self.timings.get("draft_n", 0))

    @property
    def accepted(self) -> int:
        """The guessed tokens that were right."""
        return round(self.timings.get("draft_n_accepted", 0))

    @property
    def rate(self) -> float:
        """Generated tokens per second of the time that it took to make them."""
        return 1000 * self.timings["predicted_n"] / self.timings["predicted_ms"]

    @property
    def ttft_ms(self) -> float:
        """Milliseconds from the request, with the connection that is made for it, to the first text."""
        return 1000 * (self.chunks[0] - self.begun)

    @property
    def gaps_ms(self) -> list[float]:
        """Milliseconds between one piece of text and the next."""
        return [1000 * (after - before) for before, after in zip(self.chunks, self.chunks[1:])]

    @property
    def tpot_ms(self) -> float:
        """Milliseconds per token after the first one, however the tokens were sent."""
        return 1000 * (self.chunks[-1] - self.chunks[0]) / (self.predicted - 1)


def ask(server: Server, prompt: Prompt) -> Answer:
    """Ask one prompt and return the answer; TuningError, one sentence, for anything but a whole and true one."""
    clock, api = server.clock, server.api
    body = api.body(prompt)
    chunks: list[float] = []
    texts: list[str] = []
    final: Mapping[str, Any] = {}
    begun = clock.monotonic()
    end = begun + server.limit
    try:
        with closing(stream.request_events(server.url, body, end, server.key, clock, api.path)) as events:
            for event in events:
                now = clock.monotonic()
                text = api.text(event)
                if text:
                    chunks.append(now)
                    texts.append(text)
                if api.ends(event):
                    final = event
                    break
    except TuningError as error:
        raise TuningError(f"{server.url}{error}") from None
    ended = clock.monotonic()
    if not final:
        raise TuningError(_unfinished(server, prompt, begun, chunks, ended >= end))
    timings = api.timings(final, begun, chunks)
    why = _wrong(api, prompt, timings, chunks)
    if why:
        raise TuningError(f"{server.url}{api.path} {why}.")
    return Answer(prompt, begun, chunks, ended, timings, "".join(texts))


def sample(answer: Answer, where: Mapping[str, Any], witness: Mapping[str, Any], void: str | None = None) -> Sample:
    """Return the record of an answer that one stream got, for the run document; no text but its digest.

    ``where`` holds round, arm, and the number of the start of the server. ``void`` says why it does not count.
    """
    timings = answer.timings
    return {
        **{name: where[name] for name in WHERE},
        "kind": answer.prompt.kind,
        "streams": 1,
        "prompt_n": round(timings["prompt_n"]),
        "prompt_ms": timings["prompt_ms"],
        "predicted_n": answer.predicted,
        "predicted_ms": timings["predicted_ms"],
        "drafted": answer.drafted,
        "accepted": answer.accepted,
        "ttft_ms": round(answer.ttft_ms, 3),
        "gaps_ms": [round(gap, 3) for gap in answer.gaps_ms],
        "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
        "witness": dict(witness),
        "void": void,
    }


def _unfinished(server: Server, prompt: Prompt, begun: float, chunks: Sequence[float], late: bool) -> str:
    """Return the sentence on an answer that stopped, the server being silent or gone."""
    came = f"{len(chunks)} pieces of text for {prompt.tokens} tokens came"
    came += f", the last after {chunks[-1] - begun:.1f} s" if chunks else ""
    if late:
        return (
            f"{server.url}{server.api.path} did not finish in {server.limit:g} s: {came}. The journal of the unit says "
            "whether it stalled; a slow server needs a longer limit."
        )
    return (
        f"{server.url}{server.api.path} closed the connection in the middle of its answer: {came}. The journal of the "
        "unit says whether the server ended."
    )


def _wrong(api: Api, prompt: Prompt, timings: Mapping[str, float], chunks: Sequence[float]) -> str:
    """Return why a finished answer does not count, an empty text where it does."""
    missing = [name for name in api.told if timings.get(name, 0) <= 0]
    if missing:
        return api.untold(missing[0])
    cached = round(timings["cache_n"])
    if cached:
        return (
            f"took {cached} tokens of the prompt from its cache, which the request forbids, so that reading the prompt "
            "was not measured: take what keeps prompts out of the arguments of the server"
        )
    if timings["predicted_n"] != prompt.tokens:
        return (
            f"made {timings['predicted_n']:.0f} tokens where {prompt.tokens} were asked for: {api.more_room}, or ask "
            "for less"
        )
    if not chunks:
        return "made tokens but sent no text: the model answers with control tokens alone, so take other prompts"
    return ""
