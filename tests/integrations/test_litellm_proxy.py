"""The guard as a callback of the LiteLLM proxy."""

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.integrations
pytest.importorskip("litellm", reason="`make test-integrations` brings it")


def test_looping_client_is_nudged_once_and_then_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")  # asks nobody for prices
    import litellm
    from litellm.caching.caching import DualCache
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.proxy.utils import ProxyLogging

    from chimeralab.integrations.litellm import LoopGuard

    monkeypatch.setattr(litellm, "callbacks", [LoopGuard()])
    proxy = ProxyLogging(user_api_key_cache=DualCache())

    def passed(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        call = proxy.pre_call_hook(
            user_api_key_dict=UserAPIKeyAuth(),
            data={"model": "any", "messages": list(messages)},
            call_type="acompletion",
        )
        return asyncio.run(call)["messages"]

    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the row."}]
    added = []
    for n in range(1, 5):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "no rows"})
        added.append(len(passed(messages)) - len(messages))
    assert added == [0, 0, 1, 0]
    messages += messages[-2:]
    for _ in range(2):  # tried again, it is refused again
        with pytest.raises(Exception, match="You have called “look") as refused:
            passed(messages)
        assert refused.value.status_code == 400
