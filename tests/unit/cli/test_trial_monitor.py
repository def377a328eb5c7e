"""The live display of a trial shows the metrics that are computed afterwards."""

import io

from rich.console import Console

from chimeralab.cli import run
from chimeralab.cli.run import RunProgress, TrialMonitor
from chimeralab.testing.sessions import play
from chimeralab.trial.columns import columns_of
from chimeralab.trial.course import Layout
from chimeralab.trial.metrics import measure
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Conformity

ARMS = {"control": Arm({}), "crowd": Arm({"conformity": Conformity()})}


def test_live_metrics_by_arm_match_the_complete_log():
    monitor, logs = TrialMonitor(), {name: [] for name in ARMS}
    answer = PhantomSubject(PhantomSubjectSettings()).answer
    for seed in (1, 2):
        course = Layout().lay_out(Ledger().make(seed), 1, seed=0)
        for name, arm in ARMS.items():
            rows = play(Script(course, arm, 3, PROBES), answer, name)
            logs[name] += rows
            for row in rows:
                monitor.add(row)
    for name, found in monitor.measure().items():
        whole = measure(columns_of(logs[name]), resamples=0)
        for metric in ("mci", "gfq", "dfs"):
            live, after = getattr(found, metric).value, getattr(whole, metric).value
            assert abs(live - after) < 1e-12
            assert getattr(found, metric).interval is not None
    console = Console(width=80, record=True)
    console.print(monitor.table(80))
    assert "crowd" in console.export_text()


def scored(arm):
    """Play a session under an arm, and return its rows."""
    course = Layout().lay_out(Ledger().make(1), 1, seed=0)
    answer = PhantomSubject(PhantomSubjectSettings()).answer
    return play(Script(course, ARMS["control"], 3, PROBES), answer, arm)


def test_last_display_includes_what_came_after_the_previous_table(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(run, "err", Console(file=screen, force_terminal=True, width=80))
    progress = RunProgress()
    with run.show_progress(progress) as publish:
        for news in scored("early"):
            publish(news)
        progress.trials.table(80)
        for news in scored("late"):
            publish(news)
    assert "late" in screen.getvalue()


def test_long_arm_names_are_not_cut_on_a_narrow_terminal():
    monitor = TrialMonitor()
    for last in ("conformity", "corrupted-memory"):
        for row in scored(f"amnesia+infallibility+{last}"):
            monitor.add(row)
    console = Console(width=80, record=True)
    console.print(monitor.table(80))
    shown = console.export_text()
    assert "conformity" in shown
    assert "corrupted-memory" in shown
    assert "…" not in shown
