"""One configuration: the same rules for `detect`, guards, hooks and tests, and clear refusals."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import chimeralab as typed
from chimeralab.core.config import find_config
from chimeralab.core.errors import InputError
from chimeralab.integrations.claude_code import ClaudeCodeHook, read_options
from chimeralab.integrations.watch import Watch as TypedWatch
from chimeralab.integrations.watch import WatchSettings, without_refusals
from chimeralab.testing import assert_no_loop as typed_assert_no_loop

Chimera = Callable[..., Any]
# Wrong types are what is tested.
chimeralab: Any = typed
Watch: Any = TypedWatch
assert_no_loop: Any = typed_assert_no_loop


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a pyproject.toml, and works in its folder."""

    def write(table: str, name: str = "pyproject.toml") -> Path:
        (tmp_path / name).write_text(table, encoding="utf-8")
        return tmp_path

    monkeypatch.chdir(tmp_path)
    return write


def polling(tool: str, times: int = 6) -> list[Any]:
    """An agent that makes the same call again and again, with the same result."""
    call = {"id": "c", "function": {"name": tool, "arguments": '{"job": 7}'}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    gets = {"role": "tool", "tool_call_id": "c", "content": "no rows"}
    return [{"role": "user", "content": "Get the report."}, *[asks, gets] * times]


def write_log(folder: Path, tool: str) -> Path:
    log = folder / "talk.jsonl"
    log.write_text(json.dumps({"messages": polling(tool)}) + "\n", encoding="utf-8")
    return log


def guard_warns(**settings: Any) -> bool:
    guard = chimeralab.Guard(vectors=False, **settings)
    signals = [guard.update(message) for message in polling("lookup")]
    return any(each.loop and each.loop.level == "nudge" for each in signals)


def test_every_way_to_ignore_a_tool_means_the_same(
    project: Callable[..., Path], chimera: Chimera
) -> None:
    log = write_log(project(""), "lookup")
    tools: Any = {"lookup": "ignore"}

    def by_command(*options: str) -> bool:
        return bool(chimera("detect", log, "--no-vectors", "--json", *options).rows[0]["looping"])

    def test_fails(**settings: Any) -> bool:
        try:
            assert_no_loop(polling("lookup"), **settings)
        except AssertionError:
            return True
        return False

    def by_watch(**settings: Any) -> bool:
        watch = Watch(**settings)
        return any(watch.update(message) for message in polling("lookup"))

    loops = [by_command(), guard_warns(), test_fails(), by_watch()]
    told = [by_command("--ignore", "lookup"), guard_warns(tools=tools)]
    told += [test_fails(tools=tools), by_watch(tools=tools)]
    told += [chimeralab.detect(polling("lookup"), detector=None, tools=tools).looping or False]
    project('[tool.chimera]\nignore = ["lookup"]\n')
    configured = [by_command(), guard_warns(), test_fails(), by_watch()]
    assert (loops, told, configured) == ([True] * 4, [False] * 5, [False] * 4)


@pytest.mark.parametrize(
    ("rule", "nonces", "loops"),
    [
        ({"repeats": 3}, [0] * 5, True),
        ({"repeats": 9}, [0] * 5, False),
        ({"repeats": 9}, [0] * 10, True),
        ({"identity": ["nonce"]}, range(5), False),
        ({"identity": ["row"]}, range(5), True),
    ],
)
def test_rules_per_tool_mean_the_same_in_detect_and_a_guard(
    rule: dict[str, Any], nonces: Sequence[int], loops: bool
) -> None:
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Get the rows."}]
    for nonce in nonces:
        arguments = json.dumps({"row": "a", "nonce": nonce})
        call = {"id": "c", "function": {"name": "rows", "arguments": arguments}}
        talk += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "a b c"},
        ]
    guard = chimeralab.Guard(vectors=False, tools={"rows": rule})
    warned = [s.loop.level for s in map(guard.update, talk) if s.loop and s.loop.level != "notice"]
    found = chimeralab.detect(talk, detector=None, tools={"rows": rule})
    assert (bool(warned), found.looping) == (loops, loops)


def test_a_verdict_names_the_rules_that_it_was_reached_with() -> None:
    found = chimeralab.detect(polling("lookup"), detector=None, tools={"lookup": "ignore"})
    assert found.loop_detector
    assert found.loop_detector["tools"] == {"lookup": "ignore"}


def test_what_a_call_says_wins_over_the_project(project: Callable[..., Path]) -> None:
    project('[tool.chimera]\nignore = ["lookup"]\n')
    assert not guard_warns()
    assert guard_warns(tools={"lookup": {"repeats": 3}})
    assert guard_warns(project=False)


def test_python_detect_depends_on_its_arguments_alone(project: Callable[..., Path]) -> None:
    project('[tool.chimera]\nignore = ["lookup"]\n')
    assert chimeralab.detect(polling("lookup"), detector=None).looping


def test_the_nearest_file_counts_alone(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project('[tool.chimera]\nignore = ["a"]\n') / "x" / "y"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[project]\nname = 'chimera-user'\n", encoding="utf-8")
    monkeypatch.chdir(inner)
    assert find_config().values == {"ignore": ["a"]}
    (inner / "chimera.toml").write_text('on_stop = "refuse"\n', encoding="utf-8")
    assert find_config().values == {"on_stop": "refuse"}
    monkeypatch.setenv("CHIMERA_CONFIG", "off")
    assert find_config().values == {}
    monkeypatch.setenv("CHIMERA_CONFIG", str(inner.parents[1] / "pyproject.toml"))
    assert find_config().values == {"ignore": ["a"]}


def test_a_file_that_is_edited_is_read_again(project: Callable[..., Path]) -> None:
    path = project('[tool.chimera]\nignore = ["a"]\n') / "pyproject.toml"
    before = find_config().values
    path.write_text('[tool.chimera]\nignore = ["bb"]\n', encoding="utf-8")
    assert (before, find_config().values) == ({"ignore": ["a"]}, {"ignore": ["bb"]})


def test_file_without_a_table_for_us_is_parsed_once(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project('[project]\ndependencies = ["chimera-lab"]\n')
    parsed: list[str] = []

    def loads(text: str) -> dict[str, Any]:
        parsed.append(text)
        return {}

    monkeypatch.setattr("tomllib.loads", loads)
    for _ in range(3):
        chimeralab.Guard(vectors=False)
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('ignore = "status"', "ignore is 'status'; expected names of tools, such as [\"status\"]"),
        ("ignore = [1]", "ignore is [1]; expected names of tools"),
        ("ignored = []", "unknown setting 'ignored' in {place} (did you mean 'ignore'?)"),
        ("repeats = { ls = 1 }", "expected a number of identical calls per tool, at least 2"),
        ("repeats = { ls = true }", "expected a number of identical calls per tool, at least 2"),
        ('identity = { sh = "cmd" }', "expected names of arguments per tool"),
        ('ignore = ["a"]\nrepeats = { a = 4 }', "repeats is given for 'a', which is also under"),
        ("thresholds = { s1 = 3 }", "thresholds s1 must be a number from -1 to 1, not 3"),
        ("thresholds = { s3 = 1 }", "unknown key 's3' in {place}: thresholds"),
        ("thresholds = { loops = { onn = 1 } }", "unknown key 'onn' in {place}: thresholds.loops"),
        ('thresholds = { s1 = "high" }', 'thresholds s1 = "high": input should be a valid number'),
        ("price = { in = 3 }", "expected {{ in = …, out = … }}, per million tokens"),
        ("price = { in = -1, out = 2 }", "expected {{ in = …, out = … }}, per million tokens"),
        ('formats = ["plain"]', "expected readers of your own"),
        ("columns = { id = 4 }", "expected {{ text = "),
        ('fail_on = ["loops"]', "expected some of loop, collapse, nothing-judged"),
        ("budget = { tokens = 0 }", "budget['tokens'] is 0; expected a positive number"),
        ("budget = { token = 1 }", "budget has 'token'; expected tokens, money, steps, minutes"),
        ("max_wait = 0", "max_wait is 0; expected seconds above 0"),
        ('on_stop = "kill"', 'on_stop is \'kill\'; expected "end" or "refuse"'),
        ("ignore = [", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_place_and_way_out(
    project: Callable[..., Path], chimera: Chimera, table: str, said: str
) -> None:
    folder = project(f"[tool.chimera]\n{table}\n")
    place = f"{folder / 'pyproject.toml'} [tool.chimera]"
    for command in (["config"], ["detect", write_log(folder, "status")]):
        ended = chimera(*command)
        assert ended.code == 2
        assert said.format(place=place) in ended.err
        assert str(folder / "pyproject.toml") in ended.err
        assert len(ended.err.strip().splitlines()) == 1


def test_a_broken_pyproject_without_our_table_is_not_our_business(
    project: Callable[..., Path],
) -> None:
    project("[project\nname = 'chimera'\n")
    assert find_config().values == {}


def test_config_names_the_origin_of_each_value(
    project: Callable[..., Path], chimera: Chimera, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project('[tool.chimera]\nignore = ["lookup"]\nthresholds = { loops = { on = 2.0 } }\n')
    place = f"{folder / 'pyproject.toml'} [tool.chimera]"
    monkeypatch.setenv("CHIMERA_GUARD_KEY", "hush")
    shown = {row["name"]: row for row in chimera("config", "--json").json["settings"]}
    origins = {name: (shown[name]["value"], shown[name]["from"]) for name in shown}
    assert origins["ignore"] == (["lookup"], place)
    assert origins["thresholds.loops.on"] == (2.0, place)
    assert origins["thresholds.s1"] == (0.92, "default")
    assert origins["on_stop"] == ("end", "default")
    assert origins["CHIMERA_GUARD_KEY"] == ("(set)", "environment")
    text = chimera("config").out
    assert f"ignore               lookup  ({place})" in text
    assert "hush" not in text


def test_options_of_detect_win_over_the_project(
    project: Callable[..., Path], chimera: Chimera
) -> None:
    log = write_log(project('[tool.chimera]\nfail_on = ["loop"]\nthresholds = { s1 = 0.5 }\n'), "a")
    assert chimera("detect", log).code == 1
    changed = chimera("detect", log, "--json").rows[0]["detector"]["changed"]
    assert changed == {"s1": 0.5}
    assert chimera("detect", log, "--json", "--s1", "0.6").rows[0]["detector"]["changed"] == {
        "s1": 0.6
    }
    # Without vectors, no locked rule uses the threshold; only the command line is asked about it.
    assert chimera("detect", log, "--no-vectors").code == 1
    assert chimera("detect", log, "--no-vectors", "--s1", "0.6").code == 2


def test_prices_and_columns_of_the_project_are_used(
    project: Callable[..., Path], chimera: Chimera
) -> None:
    folder = project(
        "[tool.chimera]\nprice = { in = 2, out = 8 }\n"
        'columns = { id = "run", text = "utterance", speaker = "by" }\n'
    )
    log = folder / "rows.csv"
    log.write_text("run,by,utterance\n" + "1,a,Again and again.\n" * 6, encoding="utf-8")
    row = chimera("detect", log, "--no-vectors", "--json").rows[0]
    assert row["looping"]
    assert row["cost"]["money"] > 0


def test_a_format_of_the_project_runs_only_with_consent(
    project: Callable[..., Path], chimera: Chimera, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project('[tool.chimera]\nformats = ["own_lines:OwnLines"]\n')
    (folder / "own_lines.py").write_text(
        "from chimeralab.ext import Reader, Trajectory, Turn\n"
        "class OwnLines(Reader):\n"
        "    name, recognised = 'own-lines', 'an object with own_lines'\n"
        "    keys = frozenset({'own_lines'})\n"
        "    def matches(self, value): return 'own_lines' in value\n"
        "    def read(self, value, place):\n"
        "        return Trajectory('own', tuple(map(Turn, value['own_lines'])))\n",
        encoding="utf-8",
    )
    (folder / "talk.jsonl").write_text(
        json.dumps({"own_lines": ["Once more."] * 6}) + "\n", encoding="utf-8"
    )
    monkeypatch.setattr("chimeralab.cli.options.READERS", known := dict[str, Any]())
    refused = chimera("detect", "talk.jsonl", "--no-vectors")
    assert refused.code == 2
    assert "the configuration runs the code of" in refused.err
    assert known == {}
    chimera("detect", "talk.jsonl", "--no-vectors", "--allow-code")
    assert [*known] == ["own-lines"]


def test_a_hook_takes_what_its_command_does_not_say_from_the_project(
    project: Callable[..., Path],
) -> None:
    project('[tool.chimera]\nignore = ["lookup"]\non_stop = "refuse"\n')
    assert ClaudeCodeHook(**read_options([]))._watch._refuses
    assert not ClaudeCodeHook(**read_options(["--on-stop", "end"]))._watch._refuses


def test_a_host_that_cannot_refuse_ignores_the_project_but_not_its_caller(
    project: Callable[..., Path],
) -> None:
    project('[tool.chimera]\non_stop = "refuse"\n')
    assert not Watch(**without_refusals(WatchSettings()))._refuses
    with pytest.raises(InputError, match="not possible in this host"):
        without_refusals({"on_stop": "refuse"})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: chimeralab.detect(["a", None]), "item 1 of the list is None, not a text"),
        (lambda: chimeralab.detect([None, "a"]), "item 0 of the list is None, not a text"),
        (lambda: chimeralab.detect(["a", 5]), "item 1 of the list is an int, not a text"),
        (lambda: chimeralab.detect("a"), "a str is not a conversation; pass a list of texts"),
        (lambda: chimeralab.detect(["a"], detector="loops"), "detector is 'loops', a str;"),
        (lambda: chimeralab.detect(["a"], detector=chimeralab.LockedRule), "LockedRule"),
        (lambda: chimeralab.detect(["a"], loops="loops"), "loops is 'loops', a str; expected"),
        (lambda: chimeralab.detect(["a"], loops=chimeralab.LOCKED), "a LockedRule; expected"),
        (lambda: chimeralab.detect(["a"], tools=["wait"]), "tools is ['wait'], a list; expected"),
        (lambda: chimeralab.detect(["a"], speaker=3), "speaker is 3; expected a name"),
        (lambda: chimeralab.detect(["a"], encoder="mini"), "encoder is 'mini'; expected"),
        (lambda: chimeralab.Guard(tools=["wait"]), "tools is ['wait'], a list; expected"),
        (lambda: chimeralab.Guard("loops"), "detector is 'loops', a str; expected one such"),
        (lambda: chimeralab.Guard(None), "detector is None, a NoneType; expected one such as"),
        (lambda: chimeralab.Guard(loops="x", vectors=False), "loops is 'x', a str; expected"),
        (lambda: Watch(budget=5), "budget is 5; expected for example"),
        (lambda: assert_no_loop(["a"], tools="x"), "tools is 'x', a str; expected a rule"),
        (lambda: list(chimeralab.detect_file(5)), "path is 5; expected the path of a log"),
        (lambda: list(chimeralab.detect_all(5)), "conversations is 5; expected several"),
        (lambda: chimeralab.Guard(vectors=False).update(5), "this is an int, not a"),
    ],
)
def test_a_wrong_input_from_python_is_an_input_error(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError) as raised:
        call()
    assert said in str(raised.value)
