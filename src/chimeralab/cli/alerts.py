"""What `chimera detect` reports elsewhere: annotations on GitHub, and a message to a webhook."""

import json
import os
from collections.abc import Iterator
from html import escape
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import click

from chimeralab.cli.terminal import sanitize, say
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection, list_verdicts, name_kind
from chimeralab.core.text import neutralize
from chimeralab.detection.verdict import findings

MAX_ROWS, MAX_LINES, SECONDS = 50, 5, 10
# What could begin a mark, a link, a mention or another cell.
MARKDOWN = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]()#|~!@"}


class GitHubReport:
    """Annotations in the log of a GitHub Action, and its job summary."""

    def __init__(self, level: str) -> None:
        self._level = level
        self._rows: list[str] = []

    def add(self, detection: Detection) -> None:
        lines = [line for line in findings(detection) if detection.looping or detection.collapsed]
        if not lines:
            return
        if len(self._rows) < MAX_ROWS:
            self._rows.append("| " + " | ".join(map(_cell, _row(detection))) + " |")
        path, _, line = (detection.source or "").rpartition(":")
        place = {"file": path, "line": line} if line.isdigit() else {"file": detection.source or ""}
        place["title"] = f"{detection.id}: {_row(detection)[2]}"
        where = ",".join(f"{name}={_property(text)}" for name, text in place.items() if text)
        click.echo(f"::{self._level} {where}::{_data(lines[0])}", err=True)

    def write(self, summary: str) -> None:
        """Append the summary to the page of the job."""
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if not page:
            return
        heading = ["| conversation | messages | loop | since–to |", "|---|---|---|---|"]
        table = [*heading, *self._rows] if self._rows else []
        said = [_cell(line) for line in summary.split("\n")]
        with Path(page).open("a", encoding="utf-8") as file:
            file.write("\n".join(["### Loops", "", "  \n".join(said), "", *table, "", ""]))


class Webhook:
    """One message, in the JSON that Slack reads, if a conversation loops or a check fails."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("--notify needs the http or https URL of a webhook")
        self._url, self._host = url, parts.hostname
        self._lines: list[str] = []
        self._found = 0

    def add(self, detection: Detection) -> None:
        if not detection.looping and not detection.collapsed:
            return
        self._found += 1
        if self._found <= MAX_LINES:
            said = next(findings(detection, limit=1), "collapsed")
            self._lines.append(f"• {detection.id}: {said}")

    def write(self, summary: str) -> None:
        """Send the message; a failure is said, and nothing more."""
        if not self._found and "\n" not in summary:  # a failed check is a line of its own
            return
        more = self._found - MAX_LINES
        rest = [f"… and {plural(more, 'conversation')} more"] if more > 0 else []
        text = escape(neutralize("\n".join([summary, *self._lines, *rest])), quote=False)
        reason = _post(self._url, {"text": text})
        say(f"not notified {self._host}: {reason}" if reason else f"notified {self._host}")


class _NoRedirects(HTTPRedirectHandler):
    """A message is for the host that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(url: str, content: dict[str, str]) -> str:
    """Post JSON; return why that failed, without the URL, which is a secret."""
    headers = {"Content-Type": "application/json", "User-Agent": "chimera-lab"}
    request = Request(url, json.dumps(content).encode(), headers)  # noqa: S310 - http or https
    try:
        with build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return ""
    except (OSError, HTTPException, ValueError) as error:
        code = getattr(error, "code", None)
        reason = getattr(error, "reason", None) or type(error).__name__
        return sanitize(f"HTTP {code}" if code else str(reason)).replace(url, "…")


def _row(detection: Detection) -> list[str]:
    loops = list_verdicts(detection.loops)
    kinds = [name_kind(loop.kind, loop.period, loop.stream) for loop in loops] or ["collapsed"]
    since = f"{loops[0].began}–{loops[0].ended or 'end'}" if loops else ""
    more = f" +{len(kinds) - 1}" if len(kinds) > 1 else ""
    return [detection.id, str(detection.messages or detection.turns), kinds[0] + more, since]


def _cell(text: str) -> str:
    return escape(sanitize(text)).translate(MARKDOWN)


def _data(text: str) -> str:
    """A message as a workflow command takes it."""
    flat = neutralize(text).replace("%", "%25").replace("\r", "%0D")
    return flat.replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def list_alerts(*, github: bool, notify: str | None, failing: bool) -> Iterator[Any]:
    """Open the reports that the options ask for."""
    if github:
        yield GitHubReport("error" if failing else "warning")
    if notify:
        yield Webhook(notify)
