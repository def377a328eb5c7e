"""Unreadable files are named by their likely type, with a fix, and don't affect other files."""

import json

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from tests.unit.readers.logs_of import LOGS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x04\x95", "Python pickle"),
        (b"SQLite format 3\0", "SQLite database"),
        (b'{"object": "trace.span", "span_data": {"type": "response"}}', "OpenAI trace"),
        (b'{"traceId": "a", "attributes": []}', "OpenTelemetry trace without messages"),
        (b"name: x\nversion: y\n", "'Name: text' lines"),
        (b"ARROW1\0\0", "Arrow file; save it as Parquet"),
        (b"%PDF-1.7", "PDF; save its text"),
        (b'{"resourceLogs": []}', "OpenTelemetry log records, .*OTEL_SEMCONV_STABILITY_OPT_IN"),
        (b'{"resourceMetrics": []}', "OpenTelemetry metrics, .* export the spans"),
        (b'{"data": [{"traceID": "a", "spans": []}]}', "Jaeger trace"),
        (b'[{"traceID": "a", "spans": []}]', "Jaeger trace; export it as OTLP JSON"),
        (b'{"type": "TeamState", "agent_states": {}}', "AutoGen team; dump the result"),
        (b'{"type": "AssistantAgentState", "llm_context": {}}', "AutoGen agent; dump the result"),
        (b'{"uuid": "a", "chat_messages": []}', "export from Claude; write a row"),
        (b'{"name": "x"}', "`chimera formats` lists them"),
        (b"chat,who,said\n1,Ann,Hi\n", "looks like a table .* --columns"),
        (b'{"simulations": [{"id": 1}]}', r"messages is missing \(read as tau2; --format"),
        (b'{"trajectory": [{"thought": 5}], "info": {}}', r"not text \(read as swe-agent;"),
        (b'{"schema_version": "ATIF-v1.4", "steps": [{}]}', r"source is missing \(read as atif;"),
        (b'{"chosen": [{"role": 5}], "rejected": "x"}', r"not text \(read as preferences;"),
        (b'[{"lc": 1, "id": ["HumanMessage"], "kwargs": {"content": 5}}]', "read as langchain"),
        (b'{"input": [{"role": "user", "content": 5}]}', "read as responses"),
        (b'{"sessionId": "s", "messages": [{"type": 5}]}', "read as gemini-cli"),
        (b'{"mapping": {"a": {"parent": null, "message": {}}}}', "read as chatgpt"),
    ],
)
def test_rejected_file_is_named_by_its_likely_type(tmp_path, content, words):
    log = tmp_path / "log"
    log.write_bytes(content)
    with pytest.raises(LogError, match=words):
        list(readers.read(log))


def test_error_names_the_assumed_format(tmp_path):
    log = tmp_path / "log"
    log.write_text('{"contents": [{"role": "model", "parts": [{"text": 5}]}]}')
    with pytest.raises(LogError, match=r"parts\[0\].text is a number, not text \(read as gemini;"):
        list(readers.read(log))


def test_files_that_are_not_logs_are_counted_and_named_on_request(chimera, tmp_path):
    (tmp_path / "talk.jsonl").write_bytes(LOGS["plain"].healthy)
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "readme.md").write_text("# Title\n\nSome words.\n")
    asked = ["detect", "--no-vectors", str(tmp_path)]
    quiet, verbose = (chimera(*asked, *more) for more in ([], ["--verbose"]))
    assert (quiet.code, verbose.code) == (0, 0)
    counted = "2 files not read: 1 .json (no reader), 1 .md (no reader)"
    assert f"{counted} (--verbose lists them)" in quiet.err
    assert "package.json" not in quiet.err
    assert f"{counted}:\n" in verbose.err
    assert f"  {tmp_path / 'package.json'}, line 1: not a conversation in a known" in verbose.err
    assert f"  {tmp_path / 'readme.md'}: a text in no known format" in verbose.err


def test_files_that_were_not_read_are_the_last_line_of_json(chimera, tmp_path):
    (tmp_path / "talk.jsonl").write_bytes(LOGS["plain"].healthy)
    (tmp_path / "readme.md").write_text("# Title\n\nSome words.\n")
    *talks, last = chimera("detect", "--no-vectors", "--json", tmp_path).rows
    assert all("id" in talk for talk in talks)
    (row,) = last["not_read"]
    assert last["partly_read"] == []
    assert row["file"] == str(tmp_path / "readme.md")
    assert (row["line"], row["group"]) == (None, ".md (no reader)")
    assert row["reason"].startswith("a text in no known format")


@pytest.mark.parametrize(("good", "bad"), [(1, 2), (2, 2)])
def test_a_log_of_which_less_than_half_is_understood_says_so(chimera, tmp_path, good, bad):
    log = tmp_path / "talk.jsonl"
    line = json.dumps({"id": "a-talk", "turns": ["Yes."] * 5}) + "\n"
    log.write_text(line * good + '{"turns": 5}\n' * bad)
    said = f"{log}: only 1 of its 3 entries could be read"
    asked = ["detect", "--no-vectors", "--skip-bad", log]
    shown, last = chimera(*asked), chimera(*asked, "--json").rows[-1]
    assert shown.code == 0
    assert ("not a result: " + said in shown.err) == (good < bad)
    assert ("partly read" in shown.out) == (good < bad)
    assert f"{bad} bad entries skipped" in shown.err
    assert ("partly_read" in last) == (good < bad)


def test_lines_of_a_session_count_as_understood(chimera, tmp_path):
    log = tmp_path / "session.jsonl"
    log.write_bytes(LOGS["claude-code"].healthy + b"{oops\n")
    ran = chimera("detect", "--no-vectors", "--skip-bad", log)
    assert "1 bad entry skipped" in ran.err
    assert "partly read" not in ran.err + ran.out


def test_a_damaged_log_in_a_folder_fails_the_command_after_the_others(chimera, tmp_path):
    (tmp_path / "good.jsonl").write_bytes(LOGS["codex older"].looping)
    (tmp_path / "bad.jsonl").write_text('{"messages": [{"role": "user", "content": 5}]}\n')
    asked = ["detect", "--no-vectors", "--json", str(tmp_path)]
    ran = chimera(*asked)
    assert ran.code == 2
    assert "1 bad entry skipped" in ran.err
    talk, last = ran.rows
    assert talk["id"] == "s-1"
    assert [row["group"] for row in last["not_read"]] == ["openai (bad entries)"]
    assert "bad.jsonl, line 1: messages[0].content is a number" in ran.err
    assert chimera(*asked, "--skip-bad").code == 0
