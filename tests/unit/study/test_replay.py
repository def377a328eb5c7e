"""A replay repeats a stored study."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.study import Study, run_study
from chimeralab.study.export import export_study
from tests.plans import SCRIPTED

USE = 'use = "scripted:Script"'


def replay_of(study, make_study, *changes):
    kept = [change for change in changes if change[0] != USE]
    return make_study(
        SCRIPTED, (USE, f'use = "replay"\nstudy = "../{study.path.name}"'), *kept, name="again"
    )


def exported(study, tmp_path):
    folder = tmp_path / f"out-{study.path.name}"
    return {path.name: path.read_bytes() for path in export_study(study, "jsonl", folder)}


def hashes(study):
    with study.archive() as archive:
        return [(row["id"], row["outcome"], row["closing"]) for row in archive.talks()]


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ((USE, f'{USE}\nfails = "server"'), ("turns = 6", 'turns = 6\non_failure = "stop"')),
        ((USE, f'{USE}\nfails = "overflow"'),),
        ((USE, f'{USE}\nfails = "refused"'),),
        ((USE, f'{USE}\nfails = "refused"'), ("turns = 6", 'turns = 6\non_refusal = "stop"')),
    ],
)
def test_replay_is_identical(changes, make_study, tmp_path):
    first = make_study(SCRIPTED, *changes)
    run_study(first)
    again = replay_of(first, make_study, *changes)
    run_study(again)
    assert exported(again, tmp_path) == exported(first, tmp_path)
    assert hashes(again) == hashes(first)


def test_replay_of_a_missing_study_is_refused(make_study):
    study = replay_of(make_study(SCRIPTED), make_study)
    with pytest.raises(
        InputError, match=r"\[models.echo\] can't be used: .*there is nothing to replay"
    ):
        run_study(study)


def test_a_replay_needs_the_same_conversations(make_study):
    first = make_study(SCRIPTED)
    run_study(first)
    other = replay_of(first, make_study, ('id = "p2"', 'id = "p3"'))
    with pytest.raises(InputError, match=r"has no turn 1 of .*/p3/"):
        run_study(Study(other.path, allow_code=True))
