"""Laws of the messages that each speaker sees, on random conversations."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.models.seam import Sampling
from chimeralab.runner import Prompt, Rules, Speaker, Talk, TurnRecord
from chimeralab.runner.converse import visible_messages
from chimeralab.runner.interventions import Ask

views = st.fixed_dictionaries(
    {
        "speakers": st.integers(2, 6),
        "turn": st.integers(1, 30),
        "seed_visible": st.sampled_from(["all", "first"]),
        "system": st.sampled_from([None, "Be brief."]),
        "hidden": st.integers(0, 30),
    }
)


def messages_of(case):
    sampling = Sampling()
    cast = tuple(Speaker(f"s{n}", "m", sampling, case["system"]) for n in range(case["speakers"]))
    talk = Talk("c", Prompt("p", "<0>"), 1, cast, Rules(seed_visible=case["seed_visible"]), 0)
    said = [TurnRecord(n, "", "m", f"<{n}>", "stop") for n in range(1, case["turn"])]
    first_shown = max(1, min(case["hidden"], case["turn"] - 1))
    ask = Ask(case["turn"], talk.slot(case["turn"]), len(cast), "m", sampling, first_shown)
    return talk, ask, visible_messages(talk, ask, said)


@given(views)
def test_strict_chat_template_accepts_every_view(case):
    _, _, messages = messages_of(case)
    roles = [message.role for message in messages if message.role != "system"]
    assert roles[0] == roles[-1] == "user"
    assert all(a != b for a, b in pairwise(roles))


@given(views)
def test_every_shown_turn_appears_once_and_in_order(case):
    _, ask, messages = messages_of(case)
    text = "".join(message.content for message in messages if message.role != "system")
    numbers = [int(part) for part in text.replace("\n", "").strip("<>").split("><")]
    shown = [number for number in numbers if number]
    assert shown == list(range(shown[0], ask.turn)) if shown else ask.turn == 1
    assert not shown or shown[0] <= ask.first_shown


@given(views)
def test_assistant_is_always_the_speaker_itself(case):
    talk, ask, messages = messages_of(case)
    own = {f"<{n}>" for n in range(1, ask.turn) if talk.slot(n) == ask.slot}
    assert {message.content for message in messages if message.role == "assistant"} <= own
