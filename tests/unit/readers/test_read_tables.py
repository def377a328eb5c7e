"""Tables with columns of any name."""

import pytest

from chimeralab import readers
from chimeralab.core.errors import InputError, LogError


def test_columns_of_any_name_can_be_named(tmp_path):
    log = tmp_path / "table.csv"
    log.write_text("chat;who;said\n1;Ann;Hi.\n1;Bo;Hello.\n2;Ann;Bye.\n")
    with pytest.raises(LogError, match=r"looks like a table .*'chat', 'who', 'said'; name the"):
        list(readers.read(log))
    named = readers.rows_with("id=chat,speaker=who,text=said")
    first, second = readers.read(log, format=named)
    assert [(turn.speaker, turn.text) for turn in first.turns] == [("Ann", "Hi."), ("Bo", "Hello.")]
    assert (first.id, second.id) == ("1", "2")
    with pytest.raises(LogError, match="no column 'sad'"):
        list(readers.read(log, format=readers.rows_with("text=sad")))
    for wrong in ("id=chat", "words=said", "text="):
        with pytest.raises(InputError, match="--columns"):
            readers.rows_with(wrong)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"speaker": "Ann", "text": ["Hi."]}, "text is a list, not text"),
        ({"speaker": ["Ann"], "text": "Hi."}, "speaker is a list, not a name"),
    ],
)
def test_wrong_type_in_a_row_names_its_column(reason, row, expected):
    assert reason(row) == expected
