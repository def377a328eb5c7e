"""Scanners for Scout: whether a transcript loops or has collapsed, with the messages."""

from inspect_scout import Result, Scanner, Transcript, scanner

from chimeralab.integrations.inspect.scorers import CitedFinding, find_collapse, find_loops


@scanner(messages="all")
def loops() -> Scanner[Transcript]:
    """Find loops by words and tool calls; no model is called."""

    async def scan(transcript: Transcript) -> Result:
        return _result(find_loops(transcript.messages, transcript.transcript_id))

    return scan


@scanner(messages="all")
def collapse() -> Scanner[Transcript]:
    """Find turns that collapsed by the locked rule; loads the sentence encoder."""

    async def scan(transcript: Transcript) -> Result:
        return _result(find_collapse(transcript.messages, transcript.transcript_id))

    return scan


def _result(finding: CitedFinding) -> Result:
    return Result(
        value=finding.found,
        explanation=finding.explanation,
        references=finding.references,
        metadata=finding.as_metadata(),
    )
