"""Blinding: a rater who has the plan, its lock, the code and a name can't tell what is rated.

The attacks here are those of a rater who recomputes the draw. What defeats all of them is that two
studies of one plan, with the same conversations and the same people, are drawn differently.
"""

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from chimeralab import pipeline
from chimeralab.bundle.build import write_bundle
from chimeralab.rating.invitations import RatingService
from chimeralab.rating.packets import DraftRating, PacketKey, lay_out_packet
from chimeralab.rating.raters import export_study_packet
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import load_rubric
from chimeralab.rating.samples import draw, draw_sample, load_groups, load_items
from chimeralab.study import RunOptions, Study
from chimeralab.study.export import export_study
from chimeralab.study.store import SECRET
from chimeralab.study.verify import verify_study
from tests.plans import PEOPLE_RATED, SELFPLAY, changed
from tests.studies import MakeStudy, write_study

QUIETLY = RunOptions(watch=False)
SPY = """
from dataclasses import dataclass
from pathlib import Path
from chimeralab.models.seam import Reply
from chimeralab.rating.ratings import Rating

SEEN = Path(__file__).with_name("seen.txt")

@dataclass(frozen=True)
class Model:
    def open(self):
        return self

    async def reply(self, request):
        with SEEN.open("a") as file:
            print(request.conversation or "first", file=file)
        return Reply("Nothing to say.")

@dataclass(frozen=True)
class Program:
    def open(self, rubric):
        return self

    async def rate(self, item):
        with SEEN.open("a") as file:
            print(item.id, file=file)
        return Rating(item.id, "", 0, "No loop.")
"""
SPIED = changed(
    SELFPLAY | {"spying.py": SPY},
    '[models.judge]\nuse = "spying:Model"\n[raters.mine]\nuse = "spying:Program"\n'
    "[run]\nconcurrency = 1\n[raters]\nretries = 0\n",
)


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Study, Study]:
    """Two studies of one locked plan, each run on its own; their conversations are equal.

    The secrets are fixed: what is drawn from few conversations may be equal by chance.
    """
    studies = []
    for name in ("one", "other"):
        secret = hashlib.sha256(name.encode()).hexdigest()
        monkeypatch.setattr("chimeralab.study.store.secrets.token_hex", lambda n, s=secret: s)
        studies.append(write_study(tmp_path / name, PEOPLE_RATED))
        if name == "one":
            pipeline.lock(studies[-1])
        else:  # a lock has its time under its hash
            studies[-1].lock_path.write_bytes(studies[0].lock_path.read_bytes())
        pipeline.run(studies[-1], QUIETLY)
    one, other = studies
    assert one.lock is not None
    assert other.lock is not None
    assert one.lock.sha256 == other.lock.sha256
    assert load_items(one) == load_items(other)
    return one, other


def secret_of(study: Study) -> str:
    with study.archive() as archive:
        return str(archive.value("SELECT value FROM study WHERE key = ?", SECRET))


def packet_of(study: Study, rater: str) -> PacketKey:
    with RatingService(study) as service:
        invitation = service.find_invitation(service.invite(rater))
        assert invitation is not None
        return service.session(invitation).key


def order_of(key: PacketKey) -> list[str]:
    return list(dict.fromkeys(entry.item for entry in key.entries))


def test_two_studies_of_one_plan_draw_everything_differently(
    twins: tuple[Study, Study], tmp_path: Path
) -> None:
    files = [export_study_packet(study, tmp_path / f"p{n}") for n, study in enumerate(twins)]
    invited = [packet_of(study, "eve") for study in twins]
    for pair in (files, invited):
        assert pair[0].packet != pair[1].packet
        assert order_of(pair[0]) != order_of(pair[1])
    calibrations = [draw(study, "calibration", 8).ids for study in twins]
    gates = [draw(study, "gate", 6, 1).ids for study in twins]
    assert calibrations[0] != calibrations[1]
    assert gates[0] != gates[1]


def test_each_study_has_a_secret_of_its_own(tmp_path: Path) -> None:
    studies = [write_study(tmp_path / name, PEOPLE_RATED) for name in ("one", "other")]
    for study in studies:
        pipeline.run(study, QUIETLY)
    secrets = {secret_of(study) for study in studies}
    assert [len(bytes.fromhex(each)) for each in secrets] == [32, 32]


def test_the_draw_follows_neither_from_the_plan_nor_from_the_name(
    twins: tuple[Study, Study],
) -> None:
    """What an attacker can compute: seeds from the name, the lock, small numbers, no secret."""
    study, _ = twins
    assert study.lock is not None
    items, rubric = load_items(study), load_rubric()
    rater, purpose = "human:eve", "rate all human:eve"
    found = order_of(packet_of(study, "eve"))
    ids = list(items)
    digest = hashlib.sha256(rater.encode()).digest()
    for seed in (0, 1, int.from_bytes(digest[:4]), int(study.lock.sha256, 16)):
        order = np.random.default_rng(seed).permutation(len(ids))
        assert [ids[n] for n in order] != found
    for guess in ("", rater, study.lock.sha256, study.plan.study.name, "0", SECRET):
        _, key = lay_out_packet([*items.values()], rubric, Shuffler(guess, purpose), ())
        assert order_of(key) != found
    # With the secret, and only with it, the draw can be repeated.
    shuffler = Shuffler(secret_of(study), purpose)
    assert order_of(lay_out_packet([*items.values()], rubric, shuffler, ())[1]) == found


def test_every_order_is_as_likely_as_any_other() -> None:
    """Over many secrets, the best guess of an attacker is right as often as chance."""
    items = [Item(name, (name,)) for name in ("a/1", "a/2", "b/1", "b/2")]
    rubric, seen, names = load_rubric(), Counter[tuple[str, ...]](), set[str]()
    draws = 4_800
    for n in range(draws):
        _, key = lay_out_packet(items, rubric, Shuffler(f"secret {n}", "rate all human:eve"), ())
        seen[tuple(order_of(key))] += 1
        names.add(key.packet)
    expected = draws / 24
    assert seen.keys() == set(permutations([item.id for item in items]))
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi_square < 49.7  # the 0.999 quantile with 23 degrees of freedom
    assert len(names) > draws - 5  # seven hexadecimal digits rarely meet


def test_every_item_is_as_likely_to_be_sampled() -> None:
    strata = {f"{name}/{n}": name for name in "ab" for n in range(5)}
    seen = Counter[str]()
    for n in range(2_000):
        seen.update(draw_sample(strata, 4, Shuffler(f"secret {n}", "sample 1")).ids)
    chi_square = sum((count - 800) ** 2 / 800 for count in seen.values()) / (1 - 4 / 10)
    assert chi_square < 27.9  # the 0.999 quantile with 9 degrees of freedom


def test_the_secret_is_in_the_store_alone(twins: tuple[Study, Study], tmp_path: Path) -> None:
    """Nothing that a rater may hold contains it, not even a bundle before the gate is decided."""
    study, _ = twins
    export_study_packet(study, study.path / "packet")
    draw(study, "gate", 6, 1)
    pipeline.detect(study)
    export_study(study, "csv", study.path / "csv")
    write_bundle(study, study.path / "bundle")
    secret = secret_of(study).encode()
    holders = [p for p in study.path.rglob("*") if p.is_file() and secret in p.read_bytes()]
    assert {path.name for path in holders} <= {"study.db", "study.db-wal"}
    assert {path.parent for path in holders} == {study.path}
    rows = (study.path / "csv" / "sheets.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1  # the heading


def decide_gate(study: Study, labels: dict[str, str]) -> None:
    """Have two people give every conversation their label."""
    draw(study, "gate", 6, 1)
    with RatingService(study) as service:
        for rater, label in labels.items():
            who = service.find_invitation(service.invite(rater))
            assert who is not None
            for sheet in service.session(who).sheets:
                service.save(who, DraftRating(sheet, label, "1-2", "Read."))
            service.hand_in(who)


def test_the_secret_is_revealed_with_the_ratings_and_the_draw_can_be_checked(
    make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(PEOPLE_RATED, steps=("lock", "run", "detect"))
    draw(study, "calibration", 4)
    export_study_packet(study, tmp_path / "packet", "calibration-1")
    before = write_bundle(study, tmp_path / "before").path
    found = verify_study(Study(before), quick=True)
    assert not found.findings
    assert "samples and packets, whose secret is not revealed yet" in found.unchecked
    decide_gate(study, {"ann": "1", "bob": "0"})
    after = Study(write_bundle(study, tmp_path / "after").path)
    assert secret_of(after) == secret_of(study)
    found = verify_study(after, quick=True)
    assert not found.findings
    assert "samples and packets, drawn again with their secret" in found.checked
    rows = (after.path / "tables" / "sheets.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 5 + 2 * 7
    assert all(secret_of(study) in row for row in rows[1:])


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        ("UPDATE packets SET packet = replace(packet, '-001', '-999')", "packet p"),
        ("UPDATE packets SET packet = '{'", "packet p"),
        ("UPDATE study SET value = 'ab' WHERE key = 'secret'", "packet p"),
        ("UPDATE samples SET sample = replace(sample, 'free/', 'fred/')", "calibration-1"),
    ],
)
def test_a_draw_that_was_changed_is_a_finding(
    make_study: MakeStudy, tmp_path: Path, damage: str, place: str
) -> None:
    study = make_study(PEOPLE_RATED, steps=("run",))
    draw(study, "calibration", 4)
    export_study_packet(study, tmp_path / "packet", "calibration-1")
    assert not verify_study(study, quick=True).findings
    with closing(sqlite3.connect(study.store_path)) as db, db:
        db.execute("DROP TRIGGER a_gate_sample_is_used_once")
        db.execute(damage)
    found = verify_study(study, quick=True).findings
    assert any(each.place.startswith(place) for each in found), found
    assert any("changed from outside" in each.problem for each in found)


@pytest.mark.parametrize("rater", ["judge", "mine"])
@pytest.mark.parametrize("step", ["rate", "attack"])
def test_models_and_programs_see_neither_names_nor_the_order_of_the_plan(
    rater: str, step: str, tmp_path: Path
) -> None:
    orders = []
    for name in ("one", "other"):
        study = write_study(tmp_path / name, SPIED)
        pipeline.run(study, QUIETLY)
        seen = study.path / "seen.txt"
        seen.unlink(missing_ok=True)
        done = getattr(pipeline, step)(study, rater)
        seen_names = seen.read_text(encoding="utf-8").split()
        aliases = [name for name in dict.fromkeys(seen_names) if name != "first"]
        conditions, _ = load_groups(study)
        assert len(aliases) == len(conditions)
        assert all(len(name) == 12 and int(name, 16) >= 0 for name in aliases)
        # They are asked about in the order of their keyed hashes.
        shuffler = Shuffler(secret_of(study), f"blinding of {rater}")
        assert aliases == sorted(aliases) == sorted(shuffler.hash(n)[:12] for n in conditions)
        orders.append(aliases)
        if step == "rate":
            assert done.newly_rated == len(conditions)
    assert not set(orders[0]) & set(orders[1])


KILLED = """
import os, sys
from chimeralab import pipeline
from chimeralab.bundle.build import write_bundle
from chimeralab.models.phantom import PhantomModel
from chimeralab.study import RunOptions, Study

reply, asked = PhantomModel.reply, []

async def reply_and_die(model, request):
    asked.append(request)
    if len(asked) > 9:
        os._exit(9)
    return await reply(model, request)

PhantomModel.reply = reply_and_die
pipeline.run(Study(sys.argv[1]), RunOptions(watch=False))
"""


def test_a_study_that_was_killed_and_continued_has_one_draw(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", PEOPLE_RATED)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, study.path], check=False, capture_output=True
    )
    assert killed.returncode == 9, killed.stderr
    first = secret_of(study)
    pipeline.run(study, QUIETLY)
    assert secret_of(study) == first
    one = packet_of(study, "eve")
    assert packet_of(study, "eve") == one
    keys = [export_study_packet(study, tmp_path / name) for name in "ab"]
    assert keys[0] == keys[1]
    with study.archive() as archive:
        recorded = archive.rows("SELECT key FROM chain WHERE kind = 'study'")
        assert [row["key"] for row in recorded].count(json.dumps([SECRET])) == 1
    assert not verify_study(study, quick=True).findings


def test_opinions_are_shown_in_an_order_that_hides_whose_they_are(make_study: MakeStudy) -> None:
    """With an order that follows from names, an adjudicator would know who gave which label."""
    study = make_study(PEOPLE_RATED, steps=("run",))
    decide_gate(study, {"ann": "1", "bob": "0"})
    with RatingService(study) as service:
        who = service.find_invitation(service.invite("cid", task="adjudicate"))
        assert who is not None
        session = service.session(who)
    shuffler = Shuffler(secret_of(study), session.key.purpose)
    assert session.key.purpose == "adjudicate gate-1 human:cid"
    assert order_of(session.key) == shuffler.order(order_of(session.key))
    assert len(session.opinions) == 6
    for sheet, opinions in session.opinions.items():
        people = {"human:ann": "1", "human:bob": "0"}
        order = sorted(people, key=lambda name: shuffler.hash(sheet, name))
        assert [each.label for each in opinions] == [people[name] for name in order]
