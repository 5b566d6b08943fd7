# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drives a headless Chromium with one page by the DevTools protocol through a pipe, without other programs or packages.

Source: chromedevtools.github.io/devtools-protocol; --remote-debugging-pipe takes JSON ended by zero bytes on the file
descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
TIMEOUT = 60


class ChromiumError(Exception):
    """Raised if there is no browser, or if it refuses a command."""


class Page:
    """A page of the browser, as a context manager. ``errors`` has exceptions of its scripts and refused requests."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise ChromiumError("There is no Chromium: install chromium-headless-shell, or run `make setup`.")
        self._home = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._in, theirs_out = os.pipe()
        theirs_in, self._out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += [f"--user-data-dir={self._home.name}", f"--window-size={width},{height}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._last = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        target = self.call_method("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self._session = self.call_method("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call_method(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *dummy: object) -> None:
        os.close(self._out)
        self._process.terminate()
        self._process.wait(TIMEOUT)
        os.close(self._in)
        self._home.cleanup()

    def call_method(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive_message()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise ChromiumError(f"{method}: {answer['error']['message']}")
                return dict(answer.get("result", {}))
            self._events.append(answer)

    def open_file(self, path: Path) -> float:
        """Open a file, wait until it is painted, and return how many seconds that took."""
        # An empty page comes first: requests of a previous page that polls would count as requests of the new page.
        self._navigate_to("about:blank")
        self.errors.clear()
        start = time.monotonic()
        self._navigate_to(path.resolve().as_uri())
        self.evaluate_javascript("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - start

    def _navigate_to(self, url: str) -> None:
        self._events.clear()
        self.call_method("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive_message())

    def requested_addresses(self) -> list[str]:
        """Return the addresses that the page has requested since it was opened."""
        sent = [event for event in self._events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def evaluate_javascript(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; a promise is awaited."""
        result = self.call_method("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise ChromiumError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def click_element(self, selector: str) -> None:
        """Click into the middle of an element, as a person would."""
        spot = self.evaluate_javascript(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center'}); const box = one.getBoundingClientRect();"
            "return [box.x + Math.min(box.width / 2, 40), box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call_method("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1)

    def press_key(self, key: str) -> None:
        """Press a key on the element that has the focus; Enter and Tab are known."""
        code, text = {"Enter": (13, "\r"), "Tab": (9, "")}[key]
        more: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call_method("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **more)
        self.call_method("Input.dispatchKeyEvent", type="keyUp", **more)

    def type_text(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.call_method("Input.insertText", text=text)

    def emulate_dark_preference(self, on: bool) -> None:
        """Emulate the preference for a dark page, or for a light one."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call_method("Emulation.setEmulatedMedia", features=[scheme])

    def emulate_print(self, on: bool) -> None:
        """Emulate printing: show the page with its print styles."""
        self.call_method("Emulation.setEmulatedMedia", media="print" if on else "screen")

    def save_screenshot(self, path: Path) -> None:
        """Save a picture of the visible part of the page."""
        picture = self.call_method("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        path.write_bytes(base64.b64decode(picture["data"]))

    def _receive_message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise ChromiumError("Chromium ended before it answered.")
            self._buffer += piece
        text, dummy, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        return message
