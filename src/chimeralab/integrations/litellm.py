"""A callback for LiteLLM: for its proxy and for `litellm.acompletion`."""

from collections.abc import AsyncIterator
from typing import Any, Unpack

from chimeralab.core.errors import LoopDetected
from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.streaming import StreamGuard, pass_on_async
from chimeralab.integrations.watch import (
    PROMPTING,
    LoopAllowance,
    Watch,
    WatchSettings,
    is_nudge,
    without_refusals,
)

with explain_missing_extra():
    from litellm.integrations.custom_logger import CustomLogger

BAD_REQUEST = 400  # which clients don't retry


class LoopRefused(LoopDetected):
    """A rejected call, with the status code for the proxy."""

    status_code = BAD_REQUEST


class LoopGuard(LoopAllowance, CustomLogger):
    """Adds a nudge to the messages of a call, and rejects later calls with the reason.

    The client keeps the conversation and never sees the nudge, so nudges are ignored when the
    messages are sent again.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        super().__init__()
        self._watch = Watch(**without_refusals(settings))

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        return self._check(data)

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        return self._check(kwargs)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """End a stream of the proxy where it begins to repeat itself."""
        async for chunk in pass_on_async(response, StreamGuard(self._watch), "end"):
            yield chunk

    def _check(self, call: dict[str, Any]) -> dict[str, Any]:
        messages = call.get("messages")
        if not isinstance(messages, list):
            return call
        found = self._watch.follow_safely(each for each in messages if not _is_ours(each))
        if found is None:
            return call
        if found.action == "stop":
            raise LoopRefused(found.message, found.loop)
        return {**call, "messages": [*messages, {"role": "user", "content": found.message}]}


def _is_ours(message: Any) -> bool:
    return message.get("role") in PROMPTING and is_nudge(str(message.get("content")))
