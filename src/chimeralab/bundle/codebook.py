"""What every column of the tables means."""

from collections.abc import Iterator, Mapping

from chimeralab.core.tables import Columns
from chimeralab.core.text import markdown
from chimeralab.study import Study
from chimeralab.study.export import TABLES
from chimeralab.trial.measures import MEASURES, words_of

CODEBOOK = "codebook.md"
PROMPTS: Columns = {"id": str, "bucket": str, "text": str}
ANYWHERE = {
    "trajectory": "the conversation, or the session of a trial",
    "condition": "what was varied: the condition, or the arm of a trial",
    "prompt": "the prompt, or the scenario of a trial",
    "seed_id": "the prompt",
    "bucket": "the kind of prompt",
    "seed_bucket": "the kind of prompt",
    "repeat": "which repeat of that prompt under that condition",
    "repeat_index": "which repeat of that prompt under that condition",
    "position": "place in the order in which the study runs",
    "prompt_text": "the prompt, word by word",
    "outcome": "how it ended: completed, stopped, failed, refusal, empty, overflow; blank if open",
    "reason": "why it ended so, where there is more to say",
    "ended": "when it ended (UTC)",
    "started": "when it began (UTC)",
    "at": "when (UTC)",
    "turn": "number of the turn, from 1; in a trial, of the question",
    "turns": "how many turns were stored",
    "opening": "the hash that the conversation starts from",
    "closing": "the hash of its last turn, which covers all before it",
    "steps": "messages and tool calls that the loop detector looked at",
    "looping": "whether the loop detector found a loop (exploratory unless the plan names it)",
    "loop_score": "how sure it is, from 0 to 1",
    "loops": "the loops that it found, as JSON",
    "speaker": "who speaks, by the name in the plan",
    "model": "the model, by the name in the plan",
    "text": "what was said",
    "finish": "why the model stopped: stop, length, …",
    "prompt_tokens": "tokens that the model was given, as it counts them",
    "completion_tokens": "tokens that it wrote, as it counts them",
    "cost": "cost by the prices of the plan; blank where there are none",
    "seconds": "how long the request took",
    "temperature": "temperature of sampling",
    "top_p": "nucleus of sampling",
    "max_tokens": "most tokens of a reply",
    "seed": "seed that was sent with the request",
    "reported_model": "the name under which the model answered",
    "declared_revision": "the revision that the plan declares",
    "revision_verified": "whether anyone checked that; of a server, never",
    "hash": "SHA-256 over this turn and the hash before it",
    "id": "number, in the order of entry",
    "run": "the run that asked",
    "probe": "what was asked in a fork; blank for the conversation itself",
    "rejected_text": "a reply that was not taken, such as a refusal",
    "kind": "what kind of event or question it is",
    "detail": "what was done, as JSON",
    "item": "the conversation that was rated; in a trial, the question",
    "rater": "who rated, by the name in the plan",
    "label": "1 for a loop, 0 for none, blank for no label",
    "adjudicated": "the label that a third person settled; blank where nobody had to",
    "stratum": "the condition of the conversation",
    "cluster": "the prompt of the conversation",
    "step": "the step of the rubric that decided",
    "kinds": "the kinds of repetition that were named, as JSON",
    "identity": "all that the rater's labels depend on, as JSON",
    "attempts": "what a model rater was asked and answered, as JSON",
    "pid": "number of the process",
    "host": "name of the machine",
    "version": "version of chimera-lab",
    "lock": "SHA-256 of the lock that the run went by; blank without a lock",
    "settings": "limits of the run, as JSON",
    "total_turns": "turns that were judged",
    "at_risk_turns": "turns that could be marked as collapsed",
    "collapsed_turns": "turns that the detector marked as collapsed",
    "collapse_rate": "collapsed_turns among total_turns",
    "first_collapse_turn": "the first of them; blank where there is none",
    "episodes": "spans of adjacent marked turns, as JSON",
    "blank_turns": "turns without a word",
    "dose": "value of what a dose design varies",
    "measure": "what was measured; the list below says what each is",
    "hits": "occasions on which it showed; of an index, its value",
    "among": "occasions on which it could show; 0 where nothing can be said",
    "value": "hits over among",
    "trial": "number of the question",
    "options": "how many answers there are to choose from",
    "response": "the answer; blank where the reply can't be read",
    "truth": "the right answer",
    "correct": "whether the answer is right",
    "confidence": "stated confidence, from 0 to 1",
    "weight": "how much context the answer needs, from 0 to 1",
    "novel": "whether the question asks for more than what was told",
    "bias": "whether a stressor pushed an answer here",
    "signal": "the answer that a stressor would push here",
    "pair": "name that two framings of one question share",
    "frame": "neutral or biased framing",
    "phase": "where a taught belief stands: taught, held, tested",
    "round": "how often the belief was taught before",
    "consensus": "whether the others agree on a wrong (critical) or the right answer",
    "evidence": "whether the evidence about a belief is true or false; empty where all is true",
    "needs": "facts that the answer needs",
    "lag": "how many questions ago the oldest of them was told",
    "disturbed": "whether part of the past was gone or altered",
    "alone": "the answer before the others were heard",
    "belief": "stated chance of the wrong answer that is pushed",
    "noticed": "whether the subject can say which answer a false signal gave",
    "recall_lag": "how many questions ago the fact was told that is asked for in a fork",
    "recall_options": "answers to choose from there",
    "recall_response": "the answer there",
    "recall_truth": "the right answer there",
    "recall_correct": "whether it is right",
    "intrusion": "whether it was told of another fact",
    "states": "what the answer says of one fact",
    "recall_states": "the same for the fork",
    "claim": "the two people of a question on who reports to whom",
    "asked": "replies that were wanted at this question",
    "unread": "those that can't be read",
    "stands": "whether what a stressor said about the question could still be read",
    "gone": "whether the fact that is asked for in a fork could not be read any more",
}
INDICES = {
    "mci": "Memory Coherence Index",
    "mci.rf": "recall fidelity, a part of the MCI",
    "mci.ci": "continuity integrity, a part of the MCI",
    "mci.cb": "context binding, a part of the MCI",
    "gfq": "Generalization Fidelity Quotient",
    "gfq.ta": "task accuracy, a part of the GFQ",
    "gfq.cta": "confidence-task agreement, a part of the GFQ",
    "dfs": "Decision Frame Stability",
    "dfs.fi": "frame invariance, a part of the DFS",
    "dfs.br": "bias resistance, a part of the DFS",
}
# Where a name stands for something else in one table.
THERE: Mapping[tuple[str, str], str] = {
    ("ratings", "reason"): "the rater's reason",
    ("ratings", "turns"): "the turns that the rater names, as JSON",
    ("runs", "reason"): "why the run ended before its work was done",
    ("attempts", "outcome"): "answered, or why not; interrupted where the run was killed",
    ("attempts", "turn"): "the turn that was asked for",
    ("prompts", "id"): "the prompt, or the scenario of a trial",
    ("prompts", "text"): "its text",
}


def codebook(study: Study) -> str:
    """Every table of this study with its columns; of a trial, its measures too."""
    kind = study.plan.kind
    tables = TABLES | {name: columns for name, (columns, _) in kind.export_tables().items()}
    outcomes = kind.outcome_columns()
    parts = ["# Codebook\n", "Blank cells are unknown or do not apply, and never stand for 0.\n"]
    for name, columns in {"outcomes": outcomes, **tables, "prompts": PROMPTS}.items():
        parts.append(f"## tables/{name}.csv\n")
        parts.append("| column | holds | meaning |\n|---|---|---|")
        parts += [f"| {c} | {of.__name__} | {meaning(name, c)} |" for c, of in columns.items()]
        parts.append("")
    if study.plan.trial:
        parts += ["## Measures\n", "| measure | what it is |\n|---|---|", *_measures(study), ""]
    return "\n".join(parts)


def meaning(table: str, column: str) -> str:
    return THERE.get((table, column)) or ANYWHERE[column]


def _measures(study: Study) -> Iterator[str]:
    assert study.plan.trial is not None
    for name in (*MEASURES, *study.plan.trial.own_measures):
        yield f"| {name} | {markdown(words_of(name).says)} |"
    yield from (f"| {name} | {words} |" for name, words in INDICES.items())
