# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each test gave, kept by the sources that it ran on, so that a run can be taken up where it was cut."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from vepyc.paths import compute_digest, ensure_directory

ROOT = Path(__file__).parents[2]
#: How many records are kept; each is of other sources.
KEPT = 20


@dataclass(frozen=True)
class Outcome:
    """How a test ended (passed, failed or skipped), the seconds of a worker that it took, and why it was skipped."""

    outcome: str
    seconds: float
    marks: tuple[str, ...] = ()
    reason: str = ""


class Record:
    """The outcomes of tests on the same sources, one line of JSON each; the last line of a test counts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_sources(cls, sources: str) -> Record:
        """Return the record of sources with this digest; the oldest records of others are removed."""
        folder = ensure_directory("test-records")
        for old in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
        return cls(folder / f"{sources}.jsonl")

    def add(self, nodeid: str, outcome: Outcome) -> None:
        """Append the outcome of a test, so that it is kept however the run ends."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": nodeid, **asdict(outcome)}) + "\n")

    def outcomes(self) -> dict[str, Outcome]:
        """Return the last outcome of each test; empty where nothing was recorded."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        # A run that was killed may have left half a line.
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return {row.pop("test"): Outcome(**row) for row in rows}


@functools.cache
def sources_digest() -> str:
    """Return the digest of the commit and of all that was changed since, new files included."""
    new_files = [Path(name) for name in _git("ls-files", "-z", "--others", "--exclude-standard").split("\0") if name]
    parts: Iterable[str | bytes] = [
        _git("rev-parse", "HEAD"),
        _git("diff", "HEAD", "--binary"),
        *(part for name in sorted(new_files) for part in (str(name), (ROOT / name).read_bytes())),
    ]
    return compute_digest(parts)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
