"""A headless Chromium over its DevTools protocol: pages loaded, scripts evaluated, pictures taken.

Speaks through two pipes (`--remote-debugging-pipe`: messages of JSON, each ended by a zero byte), so that it
needs no port, no driver and no package. Knows nothing of what the pages are about.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_S = 60.0
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


# The contrast of each text as WCAG 2.2 computes it, with the nearest background that is not clear.
CONTRAST = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) =>
    !element.closest("script") &&
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const found = texts.map((element) => {
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const what = `${element.tagName}.${element.className}: ${element.textContent.slice(0, 30)}`;
    return [Math.round(contrast * 100) / 100, what];
  });
  return JSON.stringify(found.sort((a, b) => a[0] - b[0]));
})()
"""


def find() -> str | None:
    """The path of a Chromium, or None. PENSTOCK_CHROMIUM names one that is not on the path."""
    named = os.environ.get("PENSTOCK_CHROMIUM")
    candidates = (named,) if named else NAMES
    return next((path for name in candidates if (path := shutil.which(name))), None)


def require() -> str:
    """The path of a Chromium; the test is skipped without one, or fails under PENSTOCK_REQUIRE_BROWSER=1."""
    path = find()
    if path is None:
        reason = f"no Chromium on the path (looked for {', '.join(NAMES)}; PENSTOCK_CHROMIUM names another)"
        if os.environ.get("PENSTOCK_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def decoded(data: str) -> bytes:
    """A file as the protocol carries it."""
    return base64.b64decode(data)


class BrowserError(Exception):
    """The browser refused a command, or a script on the page threw."""


@dataclass
class Tab:
    """One page. `requests` are the URLs it asked for, `complaints` what it wrote to the console or threw."""

    browser: "Browser"
    session: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, parameters, self.session)

    def look(self, *, width: int = 1440, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """`scheme` is what the reader's system prefers: light or dark; `media` may be print."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=wanted)

    def open(self, page: Path) -> None:
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.browser.wait_for("Page.loadEventFired", self.session)

    def reads_well(self, page: Path, picture: Path, *, width: int, scheme: str, texts: int) -> None:
        """Nothing but the page is fetched, it fits, and each text has contrast: more than `texts` of them."""
        self.look(width=width, scheme=scheme)
        self.open(page)
        self.picture(picture)
        assert self.requests == [page.as_uri()]
        assert self.complaints == []
        assert self.evaluate("document.documentElement.scrollWidth") == width
        contrasts = self.contrasts()
        assert len(contrasts) > texts
        assert [text for text in contrasts if text[0] < 4.5] == []

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression, as JSON carries it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def contrasts(self) -> list[tuple[float, str]]:
        """The contrast of each text on the page and what it is, the lowest first."""
        return [(contrast, what) for contrast, what in json.loads(self.evaluate(CONTRAST))]

    def press(self, key: str, code: int) -> None:
        """A key, as from the keyboard, to whatever has the focus."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        shared = {"key": key, "windowsVirtualKeyCode": code, "code": key if key != " " else "Space"}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, to: Path, *, whole: bool = True) -> None:
        taken = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(decoded(taken["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}


class Browser:
    """A running Chromium. Messages are read while a call waits for its answer."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._unread = b""
        self._events: list[dict[str, Any]] = []
        self._tabs: dict[str, Tab] = {}

    def tab(self) -> Tab:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = Tab(self, attached["sessionId"])
        self._tabs[tab.session] = tab
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        return tab

    def call(
        self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters or {}}
        self._send(message | ({"sessionId": session} if session else {}))
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, event: str, session: str) -> None:
        """Until the event has come since the last time it was waited for."""
        while not (
            come := [e for e in self._events if (e["method"], e.get("sessionId")) == (event, session)]
        ):
            self._note(self._next())
        self._events = [kept for kept in self._events if kept not in come]

    def _note(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        tab, told = self._tabs.get(message.get("sessionId", "")), message["params"]
        if message["method"] == "Page.loadEventFired":
            self._events.append(message)
        elif tab and message["method"] == "Network.requestWillBeSent":
            tab.requests.append(told["request"]["url"])
        elif tab and message["method"] in (
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
        ):
            tab.complaints.append(json.dumps(told))

    def _send(self, message: dict[str, Any]) -> None:
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._commands, left) :]

    def _next(self) -> dict[str, Any]:
        answers = select.poll()  # Not select(), which takes no descriptor above 1023.
        answers.register(self._answers, select.POLLIN)
        while b"\0" not in self._unread:
            if not answers.poll(PATIENCE_S * 1_000):
                raise BrowserError(f"no answer within {PATIENCE_S:g} s")
            came = os.read(self._answers, 1 << 16)
            if not came:
                raise BrowserError("the browser has ended")
            self._unread += came
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def running(executable: str) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol wants descriptors 3 and 4, whatever the pipes are called here.
        shell = f'exec "$0" "$@" 3</dev/fd/{their_in} 4>/dev/fd/{their_out}'
        command = ["sh", "-c", shell, executable, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            command, pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(their_in)
        os.close(their_out)
        try:
            yield Browser(our_out, our_in)
        finally:
            os.close(our_out)
            os.close(our_in)
            process.terminate()
            process.wait(PATIENCE_S)
