"""The metrics that `run` shows are those that `measure` computes afterwards."""

import os
import re
import signal
import subprocess
import sys

import pytest

from chimeralab.study import Study
from tests.plans import changed, trial
from tests.studies import rows

PLAN = changed(
    trial('use = "subject"\nconformity = 0.4', 'each = ["amnesia", "conformity"]', number=6),
    "[metrics]\ndfs = [0.8, 0.2]\n[run]\nconcurrency = 3\n",
)
RUN = [sys.executable, "-m", "chimeralab", "run"]


def last_table(text: str) -> list[str]:
    """The cells of the last table of metrics by arm in a text, without its layout."""
    return re.split(r"\ncondition ", text[text.rindex("arm  ") :])[0].split()


@pytest.fixture
def interrupted(make_study) -> Study:
    """A trial whose first run was stopped in the middle of sessions."""
    study: Study = make_study(PLAN)
    command = [*RUN, str(study.path), "--events", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        for _ in range(200):
            ran.stdout.readline()
        ran.send_signal(signal.SIGINT)
        ran.communicate()
    stored = rows(study)
    assert 0 < len(stored) < 240
    return study


def test_table_of_a_stopped_and_continued_run_is_that_of_measure(interrupted, chimera):
    half = chimera("measure", interrupted.path, "--by", "arm").out
    ran = chimera("run", interrupted.path)
    assert ran.code == 0
    assert len(rows(interrupted)) == 240
    whole = chimera("measure", interrupted.path, "--by", "arm").out
    assert last_table(ran.err) == last_table(whole) != last_table(half)
    assert {"amnesia", "conformity", "control", "sham", "MCI"} <= {*last_table(whole)}


def test_terminal_ends_with_the_table_of_measure(interrupted, chimera):
    screen, terminal = os.openpty()
    command = [*RUN, str(interrupted.path)]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    ) as ran:
        os.close(terminal)
        shown = b""
        while part := read_screen(screen):
            shown += part
    assert ran.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "")
    whole = chimera("measure", interrupted.path, "--by", "arm").out
    assert last_table(text) == last_table(whole)


def read_screen(screen: int) -> bytes:
    """What was written to a terminal since; nothing once everybody has closed it."""
    try:
        return os.read(screen, 65_536)
    except OSError:
        return b""
