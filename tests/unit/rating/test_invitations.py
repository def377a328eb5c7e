"""People rate on a server: drafts are theirs alone, and what is handed in stays."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.invitations import Invitation, RatingRoom, rater_named, training_names
from chimeralab.rating.packets import DraftRating, written_turns
from chimeralab.rating.rater_checks import stored_retest
from chimeralab.rating.raters import planned_rater, stored_ratings
from chimeralab.rating.ratings import Item
from chimeralab.rating.samples import stored_samples
from chimeralab.study import Study
from chimeralab.study.export import copy_records
from chimeralab.study.verify import verify_study
from tests.plans import PEOPLE_RATED
from tests.studies import DRAWN, MakeStudy


@pytest.fixture
def room(make_study: MakeStudy) -> Iterator[RatingRoom]:
    with RatingRoom(make_study(PEOPLE_RATED, steps=DRAWN)) as room:
        yield room


def invited(room: RatingRoom, name: str, **how: Any) -> Invitation:
    found = room.invited(room.invite(name, **how))
    assert found is not None
    return found


def loops(sheet: Item) -> str:
    return "1" if sheet.texts[-1] == sheet.texts[-2] else "0"


def rate_all(
    room: RatingRoom, who: Invitation, label: Callable[[Item], str] = loops, reason: str = "Read."
) -> None:
    for sheet in room.desk(who).sheets.values():
        room.save(who, DraftRating(sheet.id, label(sheet), "1-2", reason))


def test_a_packet_on_the_server_is_shuffled_masked_and_has_duplicates(room):
    ann, bob = invited(room, "ann"), invited(room, "human:bob")
    first, second = room.desk(ann), room.desk(bob)
    assert (len(first.sheets), ann.sample) == (7, "gate-1")  # six, and one of them twice
    behind = [[entry.item for entry in desk.key.entries] for desk in (first, second)]
    assert set(behind[0]) == set(behind[1])
    assert behind[0] != behind[1]
    shown = "".join(text for sheet in first.sheets.values() for text in sheet.texts)
    assert "looping" not in shown


def test_while_a_study_is_run_only_what_is_finished_is_rated(make_study: MakeStudy) -> None:
    study = make_study(PEOPLE_RATED, steps=DRAWN)
    with closing(sqlite3.connect(study.store_path)) as db, db:
        db.execute("DELETE FROM samples")
        [(going_on,)] = db.execute("SELECT id FROM trajectories LIMIT 1").fetchall()
        db.execute("UPDATE trajectories SET outcome = NULL WHERE id = ?", [going_on])
    with RatingRoom(study) as room:
        shown = {entry.item for entry in room.desk(invited(room, "eve")).key.entries}
    assert len(shown) == len(study.talks) - 1
    assert going_on not in shown


def test_who_is_invited_again_keeps_their_work_under_a_new_link(room):
    old = room.invite("ann")
    ann = room.invited(old)
    sheet = next(iter(room.desk(ann).sheets))
    room.save(ann, DraftRating(sheet, "1", "2-3", "The same again."))
    new = room.invite("ann")
    assert room.invited(old) is None
    assert room.drafts(room.invited(new)) == {
        sheet: DraftRating(sheet, "1", "2-3", "The same again.")
    }


def test_no_token_is_stored(room):
    token = room.invite("ann")
    room.close()
    assert token.encode() not in room.study.store_path.read_bytes()


def test_drafts_are_no_ratings_until_they_are_handed_in(room):
    ann = invited(room, "ann")
    rate_all(room, ann)
    assert stored_ratings(room.study, "human:ann") == {}
    assert [tuple(counts) for _, *counts in room.progress()] == [(7, 7, 0)]
    assert room.hand_in(ann) == (6, 0, None)
    given = stored_ratings(room.study, "human:ann")
    assert {rating.turns for rating in given.values()} == {(1, 2)}
    again = stored_retest(room.study, planned_rater(room.study, "human:ann"))
    assert again == (1, 1)
    with pytest.raises(InputError, match="handed in already"):
        room.hand_in(ann)
    with pytest.raises(InputError, match="handed in already"):
        room.save(ann, DraftRating(next(iter(room.desk(ann).sheets)), "0"))
    with pytest.raises(InputError, match="there is nothing left for human:ann"):
        room.invite("ann")


def test_undo_takes_back_one_label_with_its_turns_and_reason(room):
    ann = invited(room, "ann")
    one, two, *_ = room.desk(ann).sheets
    room.save(ann, DraftRating(one, "0"))
    room.save(ann, DraftRating(two, "1"))
    room.save(ann, DraftRating(two, "1", "2", "Th"))
    room.save(ann, DraftRating(two, "1", "2", "The same."))
    assert room.undo(ann) == two
    assert room.drafts(ann) == {one: DraftRating(one, "0")}
    assert (room.undo(ann), room.undo(ann)) == (one, None)


def test_what_is_kept_without_a_label_never_takes_one_away(room):
    ann = invited(room, "ann")
    sheet = next(iter(room.desk(ann).sheets))
    room.save(ann, DraftRating(sheet, "1"))
    room.save(ann, DraftRating(sheet, "", "2", "Late."))
    assert room.drafts(ann) == {sheet: DraftRating(sheet, "1", "2", "Late.")}


def test_an_unsure_label_counts_as_none_and_an_open_one_is_named(room):
    ann = invited(room, "ann")
    first, *others = room.desk(ann).sheets
    for name in others:
        room.save(ann, DraftRating(name, "u"))
    with pytest.raises(InputError, match="1 have no label yet: 1"):
        room.hand_in(ann)
    room.save(ann, DraftRating(first, "0"))
    assert room.hand_in(ann)[:2] == (6, 5)


def test_training_is_kept_and_never_counts(room):
    ann = invited(room, "ann")
    for name in training_names(room.desk(ann).rubric):
        room.save(ann, DraftRating(name, "1"))
    assert len(room.drafts(ann, training=True)) == len(room.desk(ann).rubric.examples)
    assert (room.drafts(ann), room.undo(ann)) == ({}, None)


@pytest.mark.parametrize(
    ("draft", "complaint"),
    [
        (DraftRating("p0000000-001", "1"), "no such sheet"),
        (DraftRating("training-99", "1"), "no such example"),
        (DraftRating("", "2"), "label '2': give 0, 1 or u"),
        (DraftRating("", "1", "3-99"), "turns '3-99'"),
        (DraftRating("", "1", "", "x" * 2001), "at most 2,000 characters"),
    ],
)
def test_what_can_not_be_meant_is_refused(room, draft, complaint):
    ann = invited(room, "ann")
    sheet = draft.sheet or next(iter(room.desk(ann).sheets))
    with pytest.raises(InputError, match=complaint):
        room.save(ann, DraftRating(sheet, draft.label, draft.turns, draft.reason))
    assert room.drafts(ann) == {}


def test_the_gate_is_decided_once_when_the_last_one_hands_in(room):
    ann, bob = invited(room, "ann"), invited(room, "bob")
    rate_all(room, ann)
    rate_all(room, bob)
    assert room.hand_in(ann)[2] is None
    assert room.hand_in(bob)[2] is not None
    [sample] = stored_samples(room.study)
    assert sample.used
    assert (room.study.path / "audit" / "gate-record.json").is_file()
    room.close()
    assert verify_study(Study(room.study.path)).findings == ()


def test_a_third_person_settles_what_two_differ_on_without_their_names(room):
    ann, bob = invited(room, "ann"), invited(room, "bob")
    rate_all(room, ann, reason="Ann is sure.")
    rate_all(room, bob, lambda sheet: "0", reason="Bob sees progress.")
    with pytest.raises(InputError, match="before the gate is decided"):
        room.invite("cid", task="adjudicate")
    room.hand_in(ann)
    room.hand_in(bob)
    for rater in ("ann", "bob"):
        with pytest.raises(InputError, match="a third person settles it"):
            room.invite(rater, task="adjudicate")
    cid = invited(room, "cid", task="adjudicate")
    with pytest.raises(InputError, match="somebody else settles gate-1"):
        room.invite("dee", task="adjudicate")
    desk = room.desk(cid)
    for sheet in desk.sheets.values():
        assert {(each.label, each.reason) for each in desk.opinions[sheet.id]} == {
            ("1", "Ann is sure."),
            ("0", "Bob sees progress."),
        }
        room.save(cid, DraftRating(sheet.id, "1", "1-4", "All four are the same."))
    before = {name: stored_ratings(room.study, name) for name in ("human:ann", "human:bob")}
    assert room.hand_in(cid)[0] == len(desk.sheets)
    assert {each.label for each in room.settled().values()} == {"1"}
    assert stored_ratings(room.study, "human:ann") == before["human:ann"]
    assert stored_ratings(room.study, "human:bob") == before["human:bob"]
    with closing(sqlite3.connect(room.study.store_path)) as db:
        db.execute("UPDATE adjudications SET label = 0")
        db.commit()
    room.close()
    found = verify_study(Study(room.study.path)).findings
    assert "adjudication" in str(found)


def test_a_copy_for_others_has_neither_links_nor_drafts(room, tmp_path):
    ann = invited(room, "ann")
    room.save(ann, DraftRating(next(iter(room.desk(ann).sheets)), "1", "", "My first thought."))
    copy_records(room.study, tmp_path / "copy.db")
    assert b"My first thought." not in (tmp_path / "copy.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    assert not tables & {"invitations", "drafts"}


@pytest.mark.parametrize("name", ["", "human:", "x" * 61, "a\nb"])
def test_a_rater_has_a_name_that_can_be_printed(name):
    with pytest.raises(InputError, match="is no name for a rater"):
        rater_named(name)


def test_turns_are_written_as_people_write_them():
    assert written_turns([7, 4, 5, 6, 9, 9]) == "4-7, 9"
