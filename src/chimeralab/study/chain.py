"""A chain of hashes through every conversation: each turn's hash covers the one before it.

A turn that is edited, dropped, added or swapped breaks the chain from there on. What is asked aside
hangs on the chain without being a part of it, as it is no part of the conversation.
"""

from chimeralab.runner import Prompt, Said
from chimeralab.study.lock import digest


def opening(talk: str, prompt: Prompt) -> str:
    """The hash that a conversation starts from."""
    return digest([talk, prompt.id, prompt.bucket, prompt.text])


def link(previous: str, said: Said) -> str:
    """The hash of a turn, given the one before it."""
    return digest([previous, said.turn, said.speaker, said.model, said.text, said.finish])


def aside(previous: str, turn: int, probe: str, text: str) -> str:
    """The hash of a reply to a probe, given that of the turn before the one it was asked at."""
    return digest([previous, turn, probe, text])
