"""A real browser for page tests: Chromium, driven through its own debugging pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)
SECONDS = 60
# Fetched by `make browser` from npm, beside the environment; it is not ours to hand on.
AXE = "axe-core@4.10.3"
AXE_FILE = Path(sys.prefix) / "axe.min.js"
KEYS = {"Enter": 13, "Tab": 9, "Escape": 27}
MOST_TABS = 80


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _closed_tabs(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test shares the time of its browser with the pages of earlier ones."""
    yield
    if "browser" in request.fixturenames:
        request.getfixturevalue("browser").close_tabs()


class Browser:
    """A headless Chromium. It reads commands from its file 3 and answers on its file 4."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._commands = os.pipe()
        self._answers, to_write = os.pipe()
        # The shell gives the pipes the numbers that Chromium insists on.
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", line, "bash", program, *FLAGS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._heard = b""
        self._number = 0
        self._tabs: list[str] = []
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def wait_for(self, method: str, session: str) -> None:
        """Wait for an event, which may have come already."""
        if any(_is(event, method, session) for event in self.events):
            return
        while not _is(event := self._next(), method, session):
            self.events.append(event)
        self.events.append(event)

    def context(self) -> str:
        """A person of their own: what they are given (cookies) nobody else has."""
        return str(self.ask("Target.createBrowserContext")["browserContextId"])

    def visit(
        self,
        page: Path | str,
        *,
        width: int = 1280,
        dark: bool = False,
        scripts: bool = True,
        context: str | None = None,
    ) -> "Visit":
        """Open a file or an address in a tab of its own, and wait until it has loaded."""
        whose = {"browserContextId": context} if context else {}
        target = self.ask("Target.createTarget", url="about:blank", **whose)["targetId"]
        self._tabs.append(target)
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        visit = Visit(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            visit.ask(f"{domain}.enable")
        visit.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        visit.ask("Emulation.setEmulatedMedia", features=[scheme])
        visit.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        address = page.resolve().as_uri() if isinstance(page, Path) else page
        visit.ask("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired", session)
        return visit

    def close_tabs(self) -> None:
        """Close what was opened: a browser keeps six connections to a server, a page holds one."""
        while self._tabs:
            self.ask("Target.closeTarget", targetId=self._tabs.pop())
        self.events.clear()

    def close(self) -> None:
        self.ask("Browser.close")
        self._process.wait(timeout=SECONDS)
        os.close(self._commands)
        os.close(self._answers)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._answers, 1 << 20) if ready else b""
            assert part, "Chromium went silent"
            self._heard += part
        message, _, self._heard = self._heard.partition(b"\0")
        return json.loads(message)


class Visit:
    """One open page: what it shows, and what it tried to do."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **params)

    def value_of(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = SECONDS) -> Any:
        """Wait until an expression is true; whatever it is then."""
        end = time.monotonic() + seconds
        while not (found := self._try(expression)):
            shown = "" if time.monotonic() < end else self.value_of("document.body?.innerText")
            assert time.monotonic() < end, f"never true: {expression}; the page says: {shown}"
            time.sleep(0.05)
        return found

    def _try(self, expression: str) -> Any:
        """The value of an expression; None while one page makes way for another."""
        try:
            return self.value_of(expression)
        except AssertionError:
            return None

    def press(self, *keys: str) -> None:
        """Press keys one after the other, as someone without a mouse does."""
        for key in keys:
            code = KEYS.get(key, 0)
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            how = {"key": key, "windowsVirtualKeyCode": code, "text": text}
            self.ask("Input.dispatchKeyEvent", type="keyDown", **how)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def tab_to(self, selector: str) -> None:
        """Press Tab until the focus is there, as someone without a mouse does."""
        for _ in range(MOST_TABS):
            self.press("Tab")
            if self.value_of(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"Tab never led to {selector}")

    def received(self) -> dict[str, str]:
        """Everything that the server has sent, headers and all, by address."""
        found = {}
        for event in self._events("Network.responseReceived"):
            answer, number = event["response"], event["requestId"]
            body = ""
            if not answer["url"].startswith("data:"):
                got = self.ask("Network.getResponseBody", requestId=number)
                raw = got["body"]
                body = base64.b64decode(raw).decode() if got["base64Encoded"] else raw
            found[answer["url"]] = f"{answer['headers']} {body}"
        return found

    def complaints(self) -> list[str]:
        """Console messages, uncaught errors and the browser's own warnings."""
        said = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(params) for name in said for params in self._events(name)]

    def fetched(self) -> list[str]:
        """Every address that was asked for, but the page's own and inline data."""
        urls = [params["request"]["url"] for params in self._events("Network.requestWillBeSent")]
        own = self.value_of("location.href.split('#')[0]")
        return [url for url in urls if url != own and not url.startswith("data:")]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        root = "document.documentElement"
        return int(self.value_of(f"{root}.scrollWidth - {root}.clientWidth"))

    def low_contrast(self, least: float = 4.5) -> list[str]:
        """Texts of the page that fall short of the contrast that WCAG AA asks for."""
        return list(self.value_of(f"({CONTRAST})({least})"))

    def serious_errors(self) -> list[str]:
        """What axe-core finds that keeps people from using the page; needs its script."""
        if not AXE_FILE.is_file():
            pytest.skip(f"{AXE} is not here (`make browser` fetches it from npm)")
        self.value_of(f"{AXE_FILE.read_text(encoding='utf-8')}; 0")
        run = "axe.run({resultTypes: ['violations']}).then(r => r.violations)"
        answer = self.ask("Runtime.evaluate", expression=run, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        found = answer["result"]["value"]
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:160]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

    def _events(self, method: str) -> list[dict[str, Any]]:
        self.ask("Runtime.evaluate", expression="0")
        found = [event for event in self._browser.events if _is(event, method, self._session)]
        return [event["params"] for event in found]


def _is(event: dict[str, Any], method: str, session: str) -> bool:
    return event.get("method") == method and event.get("sessionId") == session


# Relative luminance and contrast as WCAG 2 defines them, over every element with text of its own.
# The charts stand on white paper of their own and are left to the eye.
CONTRAST = """least => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => numbers(colour).slice(0, 3)
    .map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest("svg")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(paper(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) low.push(`${element.className}: ${element.textContent.slice(0, 40)}`);
  }
  return low;
}"""
