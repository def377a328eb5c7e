"""Rating in the browser: drafts are private, and what is handed in is final."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.invitations import (
    Invitation,
    RatingService,
    list_training_sheets,
    normalize_rater_name,
)
from chimeralab.rating.packets import DraftRating
from chimeralab.rating.rater_checks import load_retest
from chimeralab.rating.raters import find_rater, load_ratings
from chimeralab.rating.ratings import Item
from chimeralab.rating.samples import load_samples
from chimeralab.study import Study
from chimeralab.study.export import copy_records
from chimeralab.study.verify import verify_study
from tests.plans import PEOPLE_RATED
from tests.studies import DRAWN, MakeStudy


@pytest.fixture
def service(make_study: MakeStudy) -> Iterator[RatingService]:
    with RatingService(make_study(PEOPLE_RATED, steps=DRAWN)) as service:
        yield service


def invite(service: RatingService, name: str, **how: Any) -> Invitation:
    found = service.find_invitation(service.invite(name, **how))
    assert found is not None
    return found


def loops(sheet: Item) -> str:
    return "1" if sheet.texts[-1] == sheet.texts[-2] else "0"


def rate_all(
    service: RatingService,
    who: Invitation,
    label: Callable[[Item], str] = loops,
    reason: str = "Read.",
) -> None:
    for sheet in service.session(who).sheets.values():
        service.save(who, DraftRating(sheet.id, label(sheet), "T0-T1", reason))


def test_a_packet_on_the_server_is_shuffled_masked_and_has_duplicates(service):
    ann, bob = invite(service, "ann"), invite(service, "human:bob")
    first, second = service.session(ann), service.session(bob)
    assert (len(first.sheets), ann.sample) == (7, "gate-1")  # six, and one of them twice
    behind = [[entry.item for entry in session.key.entries] for session in (first, second)]
    assert set(behind[0]) == set(behind[1])
    assert behind[0] != behind[1]
    shown = "".join(text for sheet in first.sheets.values() for text in sheet.texts)
    assert "looping" not in shown


def test_only_finished_conversations_of_a_running_study_are_rated(make_study: MakeStudy) -> None:
    study = make_study(PEOPLE_RATED, steps=DRAWN)
    with closing(sqlite3.connect(study.store_path)) as db, db:
        db.execute("DELETE FROM samples")
        [(going_on,)] = db.execute("SELECT id FROM trajectories LIMIT 1").fetchall()
        db.execute("UPDATE trajectories SET outcome = NULL WHERE id = ?", [going_on])
    with RatingService(study) as service:
        shown = {entry.item for entry in service.session(invite(service, "eve")).key.entries}
    assert len(shown) == len(study.talks) - 1
    assert going_on not in shown


def test_inviting_again_replaces_the_link_and_keeps_the_work(service):
    old = service.invite("ann")
    ann = service.find_invitation(old)
    sheet = next(iter(service.session(ann).sheets))
    service.save(ann, DraftRating(sheet, "1", "2-3", "The same again."))
    new = service.invite("ann")
    assert service.find_invitation(old) is None
    assert service.drafts(service.find_invitation(new)) == {
        sheet: DraftRating(sheet, "1", "2-3", "The same again.")
    }


def test_no_token_is_stored(service):
    token = service.invite("ann")
    service.close()
    assert token.encode() not in service.study.store_path.read_bytes()


def test_drafts_become_ratings_only_when_handed_in(service):
    ann = invite(service, "ann")
    rate_all(service, ann)
    assert load_ratings(service.study, "human:ann") == {}
    assert [tuple(counts) for _, *counts in service.progress()] == [(7, 7, 0)]
    assert service.hand_in(ann) == (6, 0, None)
    given = load_ratings(service.study, "human:ann")
    assert {rating.turns for rating in given.values()} == {(1, 2)}
    again = load_retest(service.study, find_rater(service.study, "human:ann"))
    assert again == (1, 1)
    with pytest.raises(InputError, match="handed in already"):
        service.hand_in(ann)
    with pytest.raises(InputError, match="handed in already"):
        service.save(ann, DraftRating(next(iter(service.session(ann).sheets)), "0"))
    with pytest.raises(InputError, match="human:ann has nothing left"):
        service.invite("ann")


def test_undo_removes_one_label_with_its_turns_and_reason(service):
    ann = invite(service, "ann")
    one, two, *_ = service.session(ann).sheets
    service.save(ann, DraftRating(one, "0"))
    service.save(ann, DraftRating(two, "1"))
    service.save(ann, DraftRating(two, "1", "2", "Th"))
    service.save(ann, DraftRating(two, "1", "2", "The same."))
    assert service.undo(ann) == two
    assert service.drafts(ann) == {one: DraftRating(one, "0")}
    assert (service.undo(ann), service.undo(ann)) == (one, None)


def test_saving_without_a_label_keeps_the_earlier_label(service):
    ann = invite(service, "ann")
    sheet = next(iter(service.session(ann).sheets))
    service.save(ann, DraftRating(sheet, "1"))
    service.save(ann, DraftRating(sheet, "", "2", "Late."))
    assert service.drafts(ann) == {sheet: DraftRating(sheet, "1", "2", "Late.")}


def test_unsure_counts_as_none_and_unlabelled_sheets_are_named(service):
    ann = invite(service, "ann")
    first, *others = service.session(ann).sheets
    for name in others:
        service.save(ann, DraftRating(name, "u"))
    with pytest.raises(InputError, match="1 have no label yet: 1"):
        service.hand_in(ann)
    service.save(ann, DraftRating(first, "0"))
    assert service.hand_in(ann)[:2] == (6, 5)


def test_training_labels_are_stored_but_never_counted(service):
    ann = invite(service, "ann")
    for name in list_training_sheets(service.session(ann).rubric):
        service.save(ann, DraftRating(name, "1"))
    assert len(service.drafts(ann, training=True)) == len(service.session(ann).rubric.examples)
    assert (service.drafts(ann), service.undo(ann)) == ({}, None)


@pytest.mark.parametrize(
    ("draft", "complaint"),
    [
        (DraftRating("p0000000-001", "1"), "has no sheet"),
        (DraftRating("training-99", "1"), "no example"),
        (DraftRating("", "2"), "label '2': give 0, 1 or u"),
        (DraftRating("", "1", "3-99"), "turns '3-99'"),
        (DraftRating("", "1", "", "x" * 2001), "at most 2,000 characters"),
    ],
)
def test_invalid_drafts_are_rejected(service, draft, complaint):
    ann = invite(service, "ann")
    sheet = draft.sheet or next(iter(service.session(ann).sheets))
    with pytest.raises(InputError, match=complaint):
        service.save(ann, DraftRating(sheet, draft.label, draft.turns, draft.reason))
    assert service.drafts(ann) == {}


def test_the_gate_is_decided_when_the_last_rater_hands_in(service):
    ann, bob = invite(service, "ann"), invite(service, "bob")
    rate_all(service, ann)
    rate_all(service, bob)
    assert service.hand_in(ann)[2] is None
    assert service.hand_in(bob)[2] is not None
    [sample] = load_samples(service.study)
    assert sample.used
    assert (service.study.path / "audit" / "gate-record.json").is_file()
    service.close()
    assert verify_study(Study(service.study.path)).findings == ()


def test_a_third_person_adjudicates_disagreements_without_seeing_names(service):
    ann, bob = invite(service, "ann"), invite(service, "bob")
    rate_all(service, ann, reason="Ann is sure.")
    rate_all(service, bob, lambda sheet: "0", reason="Bob sees progress.")
    with pytest.raises(InputError, match="before the gate is decided"):
        service.invite("cid", task="adjudicate")
    service.hand_in(ann)
    service.hand_in(bob)
    for rater in ("ann", "bob"):
        with pytest.raises(InputError, match="a third person must adjudicate"):
            service.invite(rater, task="adjudicate")
    cid = invite(service, "cid", task="adjudicate")
    with pytest.raises(InputError, match="already adjudicating gate-1"):
        service.invite("dee", task="adjudicate")
    session = service.session(cid)
    for sheet in session.sheets.values():
        assert {(each.label, each.reason) for each in session.opinions[sheet.id]} == {
            ("1", "Ann is sure."),
            ("0", "Bob sees progress."),
        }
        service.save(cid, DraftRating(sheet.id, "1", "T0-T3", "All four are the same."))
    before = {name: load_ratings(service.study, name) for name in ("human:ann", "human:bob")}
    assert service.hand_in(cid)[0] == len(session.sheets)
    assert {each.label for each in service.load_adjudications().values()} == {"1"}
    assert load_ratings(service.study, "human:ann") == before["human:ann"]
    assert load_ratings(service.study, "human:bob") == before["human:bob"]
    with closing(sqlite3.connect(service.study.store_path)) as db:
        db.execute("UPDATE adjudications SET label = 0")
        db.commit()
    service.close()
    found = verify_study(Study(service.study.path)).findings
    assert "adjudication" in str(found)


def test_an_exported_copy_has_no_links_or_drafts(service, tmp_path):
    ann = invite(service, "ann")
    service.save(
        ann, DraftRating(next(iter(service.session(ann).sheets)), "1", "", "My first thought.")
    )
    copy_records(service.study, tmp_path / "copy.db")
    assert b"My first thought." not in (tmp_path / "copy.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    assert not tables & {"invitations", "drafts"}


@pytest.mark.parametrize("name", ["", "human:", "x" * 61, "a\nb"])
def test_unprintable_rater_names_are_rejected(name):
    with pytest.raises(InputError, match="invalid rater name"):
        normalize_rater_name(name)
