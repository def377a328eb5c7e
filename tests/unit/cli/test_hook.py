"""`chimera hook claude-code`: install and uninstall leave other settings unchanged."""

import json
from pathlib import Path

import pytest

OTHER = {
    "permissions": {"allow": ["Bash(ls:*)"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "log"}]}]
    },
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".claude" / "settings.json"


def commands(settings: Path) -> list[str]:
    hooks = json.loads(settings.read_text())["hooks"]
    return [run["command"] for name in hooks for each in hooks[name] for run in each["hooks"]]


def test_install_is_idempotent_and_uninstall_leaves_no_trace(chimera, settings: Path) -> None:
    assert chimera("hook", "claude-code", "--install").code == 0
    assert len(commands(settings)) == 3
    again = chimera("hook", "claude-code", "--install")
    assert (again.code, "nothing to change" in again.out) == (0, True)
    assert chimera("hook", "claude-code", "--install", "--ignore", "Wait").code == 0
    assert len(commands(settings)) == 3
    assert all(each.endswith("hook claude-code --ignore Wait") for each in commands(settings))
    assert chimera("hook", "claude-code", "--uninstall").code == 0
    assert json.loads(settings.read_text()) == {}


def test_other_hooks_are_kept(chimera, settings: Path) -> None:
    settings.parent.mkdir()
    settings.write_text(json.dumps(OTHER))
    chimera("hook", "claude-code", "--install")
    assert json.loads(settings.read_text())["permissions"] == OTHER["permissions"]
    assert commands(settings)[0] == "log"
    chimera("hook", "claude-code", "--uninstall")
    assert json.loads(settings.read_text()) == OTHER


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": [{}]}}'])
def test_invalid_settings_are_rejected_and_left_unchanged(
    chimera, settings: Path, text: str
) -> None:
    settings.parent.mkdir()
    settings.write_text(text)
    ran = chimera("hook", "claude-code", "--install")
    assert (ran.code, ran.out) == (2, "")
    assert "is not a valid settings file of Claude Code" in ran.err
    assert settings.read_text() == text


def test_contradictory_options_are_rejected(chimera, settings: Path) -> None:
    assert chimera("hook", "claude-code", "--install", "--uninstall").code == 2
    ran = chimera("hook", "claude-code", "--install", "--repeats", "Bash")
    assert (ran.code, "--repeats takes TOOL=N, not 'Bash'" in ran.err) == (2, True)
    assert not settings.exists()
