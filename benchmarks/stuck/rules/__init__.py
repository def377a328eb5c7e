"""The rules of other projects, written again from their documentation and tests."""

from collections.abc import Mapping

from benchmarks.stuck.rules.browser_use import BrowserUse
from benchmarks.stuck.rules.deepeval import DeepEval
from benchmarks.stuck.rules.gemini_cli import GeminiCli
from benchmarks.stuck.rules.openclaw import OpenClaw
from benchmarks.stuck.rules.opencode import OpenCode
from benchmarks.stuck.rules.openhands import OpenHands
from benchmarks.stuck.rules.openlit import OpenLit
from benchmarks.stuck.rules.qwen_code import QwenCode
from benchmarks.stuck.rules.seam import Rule

RULES: Mapping[str, Rule] = {
    "OpenHands": OpenHands(),
    "gemini-cli": GeminiCli(),
    "qwen-code": QwenCode(),
    "qwen-code, all checks": QwenCode(heuristics=True),
    "OpenClaw, turned on": OpenClaw(),
    "opencode": OpenCode(),
    "browser-use": BrowserUse(),
    "DeepEval": DeepEval(),
    "DeepEval, any signal": DeepEval(threshold=1.0),
    "OpenLIT": OpenLit(),
}
