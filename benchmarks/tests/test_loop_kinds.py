"""The picture of the kinds of loops shows what the detector says today."""

from benchmarks.validity.loop_kinds import PICTURE, draw, rows


def test_each_kind_is_noticed_in_its_example() -> None:
    without = [row.kind for row in rows() if "verdict" not in row.seen]
    assert without == ["paraphrase", "waiting"]
    assert all(row.seen for row in rows())


def test_picture_is_what_the_detector_says() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw()
