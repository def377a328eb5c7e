"""What the loop detector finds, and at which message."""

import json

import pytest

from chimeralab.core.records import Call, Loop, Turn
from chimeralab.detection.courtesy import PHRASES
from chimeralab.detection.judging import detect
from chimeralab.detection.loops import LOOPS, MAX_SPEAKERS, Loops, LoopStream
from chimeralab.detection.verdict import as_json, from_json

NEWS = (
    "The harbour froze over in the second week of January.",
    "Our baker sells rye bread on Tuesdays only.",
    "Seven violins were stolen from the concert hall.",
    "A comet will cross the northern sky tonight.",
    "My uncle repairs watches in a cellar near the station.",
    "Nobody expected the glacier to retreat so quickly.",
    "The parser drops commas inside of nested brackets.",
    "Lemon trees need shelter from wind in spring.",
    "Chess clubs met every Friday before the war.",
    "Rust ate through the pump within eleven months.",
)


def judged(*turns: str | Turn, settings: Loops = LOOPS) -> LoopStream:
    stream = LoopStream(settings)
    for turn in turns:
        stream.update(Turn(turn) if isinstance(turn, str) else turn)
    return stream


def first_verdict(stream: LoopStream) -> Loop:
    return next(loop for loop in stream.loops if loop.level == "verdict")


def called(result: str | None, arguments: str = '{"path": "a.txt"}', name: str = "read") -> Turn:
    return Turn("", "agent", "assistant", spoken=False, calls=(Call(name, arguments, result),))


def test_new_content_is_not_a_loop() -> None:
    assert judged(*NEWS).loops == []


def test_fourth_identical_message_is_noticed() -> None:
    loop = first_verdict(judged(*NEWS[:3], *[NEWS[5]] * 6))
    assert (loop.began, loop.noticed, loop.kind, loop.period) == (4, 7, "verbatim", 1)
    assert loop.ended is None
    assert loop.repeats == (5, 6)
    assert loop.excerpt == NEWS[5]


def test_short_identical_messages_are_noticed_at_the_sixth() -> None:
    loop = first_verdict(judged(*["Try again."] * 8))
    assert (loop.began, loop.noticed) == (1, 6)


def test_two_messages_in_turn_are_noticed_at_the_sixth() -> None:
    loop = first_verdict(judged(*NEWS[:2] * 4))
    assert (loop.began, loop.noticed, loop.kind, loop.period) == (1, 6, "alternating", 2)


def test_cycle_of_three_is_noticed_at_the_ninth_or_earlier() -> None:
    loop = first_verdict(judged(*NEWS[:3] * 4))
    assert loop.noticed <= 9
    assert (loop.kind, loop.period) == ("cycle", 3)


def test_template_with_other_values_is_a_loop() -> None:
    said = [f"I checked order {n} again and it is still waiting for approval." for n in range(8)]
    assert first_verdict(judged(*said)).kind == "template"


def test_repeats_with_a_few_changed_words_are_a_loop() -> None:
    said = (
        "They taste rather good, and I often get them at the market on the square.",
        "Well, they taste pretty good, and I often get them at the market on the square.",
        "They taste rather decent, and I often buy them at the market on the square.",
        "Honestly, they taste pretty good, and I often get them at market on the square.",
        "They taste fairly good, and I regularly get them at the market on the square.",
        "They taste rather decent, I often buy them at the market on the square.",
        "They taste pretty good, and I often fetch them at the market on the square!",
    )
    assert first_verdict(judged(*NEWS[:4], *said)).began == 5


def test_template_with_ever_new_fillings_is_a_loop() -> None:
    said = [
        f"That reminds me a little of how {one} It also tells us in a way: {other}"
        for one, other in zip(NEWS, (*NEWS[5:], *NEWS[:5]), strict=True)
    ][:6]
    loop = first_verdict(judged("We talked for an hour.", *said))
    assert (loop.kind, loop.began, loop.period) == ("template", 2, 1)


def test_recurring_head_and_tail_around_new_text_are_not_a_frame() -> None:
    said = [f"Good morning from the night shift. {news} Yours, the ward." for news in NEWS]
    assert judged(*said).loops == []


def test_steps_of_a_puzzle_are_not_a_loop() -> None:
    steps = (
        "The wolf can't stay with the goat, and the goat can't stay with the cabbage.",
        "The farmer takes the goat to the right bank. The wolf and the cabbage stay on the left.",
        "The farmer goes back to the left bank alone. The goat stays on the right bank.",
        "The farmer takes the wolf to the right bank. The cabbage stays on the left bank.",
        "The wolf can't stay with the goat, so the farmer takes the goat back to the left bank.",
        "The farmer leaves the goat on the left bank and takes the cabbage to the right bank.",
        "The wolf and the cabbage stay on the right bank. The farmer goes back alone.",
        "The farmer takes the goat to the right bank. Now all of them are on the right bank.",
        "What if the farmer takes the cabbage second and not the wolf?",
        "The farmer takes the cabbage to the right bank. The wolf stays on the left bank.",
        "The goat can't stay with the cabbage, so the farmer takes the goat back to the left bank.",
        "The farmer leaves the goat on the left bank and takes the wolf to the right bank.",
        "The wolf and the cabbage stay on the right bank. The farmer goes back and takes the goat.",
    )
    assert [loop for loop in judged(*steps).loops if loop.level == "verdict"] == []


def test_loop_names_the_messages_that_it_repeats() -> None:
    asked = "Please send me the invoice for the garden chairs."
    mentioned = "My neighbour has garden chairs made of steel, they rust."
    turns = [asked, mentioned, *NEWS[:3], asked, asked, asked]
    loop = first_verdict(judged(*turns))
    assert (loop.noticed, loop.repeats) == (8, (6, 7))


def test_loop_that_stops_has_an_end() -> None:
    loop = first_verdict(judged(*[NEWS[0]] * 5, *NEWS[1:]))
    assert loop.ended == 5


def test_one_sentence_over_and_over_within_a_message_is_a_loop_at_once() -> None:
    loop = first_verdict(judged(NEWS[1], "I will look at the file and then report. " * 9))
    assert (loop.kind, loop.began, loop.noticed) == ("within-turn", 2, 2)


def test_endless_goodbyes_in_new_words_are_a_loop() -> None:
    said = (
        "Thank you so much, goodbye!",
        "You are welcome, bye!",
        "Cheers, lovely to meet you!",
        "Likewise, my pleasure!",
        "Farewell, dear friend!",
        "Thanks again, that was kind!",
    )
    assert first_verdict(judged(*NEWS[:4], *said)).kind == "farewell"


@pytest.mark.parametrize(
    "lines",
    [
        ("Tschüss!", "Mach's gut!", "Danke, alles Gute!", "Gern geschehen, gute Nacht!",
         "Bis bald, schlaf gut!", "Liebe Grüße und bis morgen!", "Servus, gute Reise!"),
        ("¡Hasta luego!", "Nos vemos, cuídate.", "Gracias, igualmente.", "De nada, un placer.",
         "Buenas noches, un abrazo.", "¡Adiós, que te vaya bien!", "Chao, hasta pronto."),
        ("Well done!", "Hats off to you.", "Good job, bravo!", "You're the best, kudos.",
         "Nailed it, well said!", "Much obliged, you rock.", "A round of applause!"),
    ],
)  # fmt: skip
def test_courtesy_is_recognised_in_idioms_and_other_languages(lines: tuple[str, ...]) -> None:
    assert first_verdict(judged(*NEWS[:4], *lines)).kind == "farewell"


@pytest.mark.parametrize(
    "phrase",
    ["you're the best", "alles gute", "war mir eine", "buen día", "que tengas", "à bientôt",
     "soin de toi", "再 见"],
)  # fmt: skip
def test_first_and_last_phrase_of_each_language_are_separate_phrases(phrase: str) -> None:
    words = tuple(phrase.split())
    assert words in PHRASES[words[:2]]


def test_polite_ending_is_not_a_loop() -> None:
    said = (
        "Thank you so much for your help!",
        "You're welcome, have a great day!",
        "You too, bye!",
    )
    assert judged(*NEWS, *said).loops == []


def test_loop_of_one_speaker_names_the_speaker() -> None:
    bot = "I am afraid that I can't find any booking under this name."
    said = [Turn(text, who) for news in NEWS for text, who in ((bot, "bot"), (news, "guest"))]
    loops = [loop for loop in judged(*said).loops if loop.level == "verdict"]
    assert loops[0].stream in {"speaker:bot", "all"}
    assert loops[0].noticed <= 11


def test_acknowledgements_of_one_side_are_not_a_loop() -> None:
    said = [Turn(text, who) for news in NEWS for text, who in ((news, "a"), ("OK, go on.", "b"))]
    assert judged(*said).loops == []


def test_third_identical_call_with_the_same_result_is_a_loop() -> None:
    loop = first_verdict(judged(*[called("[]  ")] * 1, *[called("a b")] * 4))
    assert (loop.kind, loop.stream, loop.began, loop.noticed) == ("tool", "calls", 2, 4)
    assert loop.repeats == (2, 3)


def test_the_second_identical_failure_is_a_notice() -> None:
    loop = judged(called("Error: not found"), called("Error: not found")).loops[0]
    assert (loop.level, loop.stream, loop.began, loop.noticed) == ("notice", "calls", 1, 2)


@pytest.mark.parametrize(
    "result", ["ModuleNotFoundError: no module named x", "HTTP 404", "Traceback (most recent call"]
)
def test_failures_are_known_by_their_first_words(result: str) -> None:
    assert judged(called(result), called(result)).loops[0].level == "notice"


def test_identical_calls_without_results_are_a_loop_too() -> None:
    loop = first_verdict(judged(*[called(None)] * 58))
    assert (loop.began, loop.noticed) == (1, 5)


def test_polling_and_paging_are_not_loops() -> None:
    polling = [called(f"{n} % done") for n in range(30)]
    paging = [called(f"item {n}", f'{{"page": {n}}}') for n in range(30)]
    assert judged(*polling).loops == []
    assert judged(*paging).loops == []


def test_same_failure_with_other_arguments_becomes_a_loop() -> None:
    calls = [called("Error: no such table", f'{{"id": {n}}}') for n in range(8)]
    assert first_verdict(judged(*calls)).noticed == 5


def test_report_after_news_from_a_tool_is_work() -> None:
    turns = []
    for n, news in enumerate(NEWS):
        turns.append(called(news, f'{{"page": {n}}}'))
        turns.append(Turn(f"I have read page {n} of the report and will go on with the next."))
    assert [loop for loop in judged(*turns).loops if loop.level == "verdict"] == []


def test_relayed_message_is_not_a_loop() -> None:
    said = [Turn(news, who) for news in NEWS for who in ("worker", "boss")]
    assert judged(*said).loops == []


def test_code_shown_again_is_not_a_repeat() -> None:
    code = "```\n" + "\n".join(f"line_{n} = compute({n})" for n in range(20)) + "\n```"
    assert judged(*[f"{news}\n{code}" for news in NEWS]).loops == []


def test_scripts_without_spaces_are_compared_character_by_character() -> None:
    said = (
        "\u6211\u8ba4\u4e3a\u6211\u4eec\u5e94\u8be5\u7ee7\u7eed\u8ba8\u8bba\u8fd9\u4e2a\u95ee\u9898"
    )
    assert first_verdict(judged(*[said] * 5)).noticed == 4


@pytest.mark.parametrize(
    "call",
    [
        Call("run", "not json {", "x" * 10_000_000),
        Call("run", {"a": float("nan"), "b": {1, 2}}, "ok"),
        Call("run", None, None, error=True),
        Call("", [], ""),
    ],
)
def test_odd_calls_are_judged(call: Call) -> None:
    stream = judged(*[Turn("", calls=(call,), spoken=False)] * 6)
    assert first_verdict(stream).kind == "tool"


def test_a_thousand_calls_in_one_message_are_judged() -> None:
    calls = tuple(Call("read", {"n": n}, f"text {n}") for n in range(1_000))
    assert judged(Turn("", calls=calls, spoken=False)).loops == []


def test_changed_settings_are_reported() -> None:
    assert LOOPS.changed == {}
    assert Loops(on=2.0).changed == {"on": 2.0}


def test_every_message_says_which_earlier_ones_it_repeats() -> None:
    stream = LoopStream()
    repeats = [stream.update(Turn(text)) for text in (*NEWS[:3], *NEWS[:3], NEWS[4])]
    assert repeats[:3] == [[], [], []]
    assert [each[0] for each in repeats[3:6]] == [1, 2, 3]
    assert repeats[6] == []


def test_call_says_which_earlier_messages_made_it() -> None:
    stream = LoopStream()
    call = Turn("", "bot", spoken=False, calls=(Call("ls", None, "a.txt"),))
    assert [stream.update(call) for _ in range(4)] == [[], [1], [1, 2], [2, 3]]


def test_number_of_speakers_with_sums_is_bounded() -> None:
    stream = LoopStream()
    for speaker in range(3 * MAX_SPEAKERS):
        for n in range(4):
            stream.update(Turn("I will look at the same old file again.", f"agent{speaker}"))
            stream.update(Turn(NEWS[(speaker + n) % len(NEWS)], "host"))
    assert len(stream._speaker_sums) <= MAX_SPEAKERS
    assert len(stream.going_on) <= MAX_SPEAKERS + 2
    silent = [loop for loop in stream.loops if loop.stream == "speaker:agent0"]
    assert all(loop.ended is not None for loop in silent)


def test_loop_of_a_speaker_among_many_is_found() -> None:
    stream = LoopStream()
    for n in range(60):
        stream.update(Turn(f"{NEWS[n % 10]} That was {n} of {n * n + 7}.", f"agent{n}"))
        if n % 5 == 0:
            stream.update(Turn("I will look at the same old file again.", "stuck"))
    assert first_verdict(stream).stream in ("speaker:stuck", "all")


def test_template_shows_its_frame_and_what_fills_it() -> None:
    places = ["art", "steam", "old toys", "bells", "war", "the sea"]
    found = detect(
        [f"Now I see the museum of {each}, and go on." for each in places], detector=None
    )
    (loop,) = found.loops
    assert loop.frame == ("Now I see the museum of", None, "and go on.")
    assert loop.fillings == tuple((n, f"{each},") for n, each in enumerate(places, start=1))
    assert from_json(json.loads(json.dumps(as_json(found)))) == found
