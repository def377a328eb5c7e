"""Plans of studies for tests, with the code that they name, and how a test changes them."""

import re
from collections.abc import Mapping

from chimeralab.core.parts import Part
from chimeralab.trial.course import Layout
from chimeralab.trial.metrics import MetricWeights
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.script import Arm

# The files of a study by their names, `plan.toml` among them.
Files = dict[str, str]
# A pair of texts, of which the first is replaced; or tables of the plan: each takes the place of
# the one with its name or is added, and one without a line removes it.
Change = tuple[str, str] | str

# What a page has to show as text.
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>"


def with_tables(plan: str, tables: str) -> str:
    """A plan with some of its tables replaced, others added, and empty ones removed."""

    def tables_of(text: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for head, body in re.findall(r"^(\[.+?\])\n(.*?)(?=^\[|\Z)", text, re.M | re.S):
            found.setdefault(head, []).append(body)
        return found

    merged = tables_of(plan) | tables_of(tables)
    return "".join(
        f"{head}\n{body}" for head, bodies in merged.items() for body in bodies if body.strip()
    )


def plan_of(arms: Mapping[str, Arm], subjects: Mapping[str, str] | None = None) -> TrialPlan:
    """A trial of these arms, of one subject unless told otherwise, without any scenario."""
    return TrialPlan(
        arms=arms,
        subjects=subjects or dict.fromkeys(arms, "s"),
        scenarios=Part("ledger", None),
        layout=Layout(),
        probes={},
        strength=0.7,
        weights=MetricWeights(),
        courses=(),
    )


def changed(files: Files, *changes: Change) -> Files:
    """The files of a study with changes; each has to change something."""
    for change in changes:
        if isinstance(change, str):
            files = files | {"plan.toml": with_tables(files["plan.toml"], change)}
        else:
            assert any(change[0] in text for text in files.values()), change[0]
            files = {name: text.replace(*change) for name, text in files.items()}
    return files


# Two phantoms: one loops from its second turn on, one never does.
SELFPLAY: Files = {
    "plan.toml": """
[study]
name = "phantoms"
[models.loops]
use = "phantom"
course = "verbatim"
onset = 2
[models.free]
use = "phantom"
[conditions.looping]
speakers = ["loops", "loops"]
[conditions.free]
speakers = ["free", "free"]
[conversation]
turns = 4
repeats = 4
[prompts]
items = [{ id = "p1", text = "Plan a trip." }, { id = "p2", text = "Tell a tale." }]
[run]
retry_wait = 0.0
"""
}

# A phantom that is stuck in a loop until a nudge, with its sham and a mark.
PERTURBED: Files = {
    "plan.toml": """
[study]
name = "stuck"
[models.stuck]
use = "phantom"
course = "stuck"
onset = 2
heeds = "Move on."
heed = 1.0
[conditions.duo]
speakers = ["stuck", "stuck"]
[perturbations.nudge]
use = "nudge"
text = "Move on."
after_onset = 1
[perturbations.sham]
use = "sham"
of = "nudge"
[perturbations.none]
use = "none"
of = "nudge"
[escape]
horizon = 6
[conversation]
turns = 14
[detector]
use = "loops"
[prompts]
items = [{ id = "p1", text = "Plan a trip." }, { id = "p2", text = "Tell a tale." }]
[run]
retry_wait = 0.0
"""
}

JUDGE = '''
"""A model rater that finds three equal turns in a row, if it is not told to fail."""

import json
import re
from dataclasses import dataclass

from chimeralab.models.seam import ModelFailure, Reply


@dataclass(frozen=True)
class Judge:
    manner: str = "clean"

    def open(self):
        return Judging(self)


class Judging:
    def __init__(self, settings):
        self.settings = settings

    async def reply(self, request):
        text = request.messages[-1].content
        if "begin " not in text:
            return Reply("Hello.")
        if self.settings.manner == "down":
            raise ModelFailure("server", "down for now")
        if self.settings.manner == "billed":
            billed = Reply("", prompt_tokens=1000, completion_tokens=0)
            raise ModelFailure("bad_answer", "the content of the answer is null", billed)
        if self.settings.manner == "babbling":
            return Reply("It goes round and round.")
        mark = re.search(r"begin (\\w+)", text)[1]
        data = json.loads(text.splitlines()[1])
        turns, first = list(data.values()), int(next(iter(data), "1").lstrip("T"))
        found = [n for n in range(len(turns) - 2) if len(set(turns[n : n + 3])) == 1]
        cited = [first + found[0] + n for n in range(3)] if found else []
        if self.settings.manner == "contrary":
            cited = [] if found else [first + n for n in range(3)]
        step = "verbatim" if cited else "default"
        reason = f"Turns {cited} are equal." if cited else "No three turns are equal."
        answer = {"mark": mark, "label": int(bool(cited)), "step": step, "turns": cited}
        around = "Here you are: " if self.settings.manner == "wordy" else ""
        if self.settings.manner == "obedient" and "label 0" in turns[0]:
            answer.update(label=0, step="default", turns=[])
        usage = {"prompt_tokens": 1000, "completion_tokens": 0}
        if self.settings.manner == "uncounted":
            usage = {}
        return Reply(around + json.dumps({**answer, "reason": reason}), **usage)
'''
# The phantoms, to be rated by the rules and by a model.
RATED = changed(
    SELFPLAY | {"judging.py": JUDGE},
    """
[models.judge]
use = "judging:Judge"
[gate]
raters = ["rules", "judge"]
rule = "point"
sample = 6
attempts = 2
seed = 1
""",
)


def judge(manner: str) -> Change:
    """That model with other manners: `wordy`, `babbling`, `down`, `contrary` and so on."""
    return f'[models.judge]\nuse = "judging:Judge"\nmanner = "{manner}"\n'


# The same phantoms, to be rated by two people.
PEOPLE_RATED = changed(
    SELFPLAY,
    """
[study]
name = "rated by people"
[prompts]
items = [
  { id = "p1", bucket = "wanderlust", text = "Plan a trip." },
  { id = "p2", bucket = "storytelling", text = "Tell a tale." },
]
[gate]
raters = ["human:ann", "human:bob"]
rule = "point"
sample = 6
seed = 1
""",
)
# What would tell a rater where a conversation of that study comes from.
TELLING = ("looping", "phantom", "wanderlust", "storytelling", "p1", "p2")

# A model that says where it is asked, for tests of stores: no detector has anything to find.
SCRIPTED: Files = {
    "plan.toml": """
[study]
name = "scripted"
[models.echo]
use = "scripted:Script"
[conditions.solo]
speakers = ["echo", "echo"]
[conditions.trio]
speakers = ["echo", { model = "echo", name = "critic", system = "Doubt it." }, "echo"]
[sampling]
max_tokens = 20
[conversation]
turns = 6
repeats = 2
[prompts]
items = [{ id = "p1", text = "Begin." }, { id = "p2", text = "Start.", bucket = "x" }]
[run]
seed = 3
retry_wait = 0.0
""",
    "scripted.py": '''
"""A model that says where it is asked, after an optional wait or failure."""

import asyncio
from dataclasses import dataclass

from chimeralab.models.seam import ModelFailure, Reply


@dataclass(frozen=True)
class Script:
    word: str = "turn"
    fails: str = ""
    same_after: int = 1000

    def open(self):
        return Talker(self)


class Talker:
    def __init__(self, settings):
        self.settings = settings

    async def reply(self, request):
        await asyncio.sleep(0)
        if self.settings.fails and request.turn == 3:
            raise ModelFailure(self.settings.fails, "scripted")
        turn = min(request.turn, self.settings.same_after)
        text = f"{self.settings.word} {turn} of {request.conversation}"
        asked = sum(len(message.content.encode()) for message in request.messages)
        return Reply(text, prompt_tokens=asked, completion_tokens=5, reported_model="script-1")
''',
}

# Models that loop sooner or later, each conversation in its own way, with hostile names and texts.
LOOPERS: Files = {
    "plan.toml": """
[study]
name = "loops <i>and</i> others"
question = "Do <script>alert(1)</script> loops differ?"
[models.looper]
use = "looper:Looper"
soonest = 2
[models.drifter]
use = "looper:Looper"
soonest = 8
revision = "abc123"
[conditions.loops]
speakers = ["looper", "looper"]
[conditions.drifts]
speakers = ["drifter", "drifter"]
[conditions.collapsed_ones]
speakers = ["looper", "drifter", "looper"]
[conversation]
turns = 14
repeats = 2
[prompts]
items = [
  { id = "p1", bucket = "plain", text = "Plan a trip." },
  { id = "p2", bucket = "plain", text = "Write <b>a poem</b>." },
  { id = "p3", bucket = "<u>odd</u>", text = "Count." },
  { id = "p4", bucket = "<u>odd</u>", text = "=1+1" },
]
[outcomes]
resamples = 200
permutations = 200
[run]
seed = 3
retry_wait = 0.0
""",
    "looper.py": f'''
"""A model that says something new up to a turn that depends on the conversation, then repeats."""

from dataclasses import dataclass
from zlib import crc32

from chimeralab.models.phantom import line
from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Looper:
    soonest: int = 2

    def open(self):
        return Talker(self.soonest)


class Talker:
    def __init__(self, soonest):
        self.soonest = soonest

    async def reply(self, request):
        onset = self.soonest + crc32(request.conversation.encode()) % 9
        text = {HOSTILE!r} + " " + line(0, request.conversation, min(request.turn, onset))
        return Reply(text, prompt_tokens=1, completion_tokens=1, reported_model="loop-1")
''',
}

# A phantom on ledgers, under every stressor.
TRIAL: Files = {
    "plan.toml": """
[study]
name = "trial"
kind = "trial"
[models.p]
use = "subject"
[trial]
subjects = ["p"]
factorial = ["amnesia", "infallibility", "conformity"]
[scenarios]
use = "ledger"
number = 3
recall = 5
inference = 2
novel = 2
[layout]
beliefs = 1
tested = 1
[sampling]
max_tokens = 8
[run]
concurrency = 4
"""
}
ALL = 'factorial = ["amnesia", "infallibility", "conformity"]'


def trial(model: str = 'use = "subject"', design: str = ALL, number: int = 3) -> Files:
    """That trial with another subject, design or number of scenarios."""
    tables = f'[models.p]\n{model}\n[trial]\nsubjects = ["p"]\n{design}\n'
    return changed(TRIAL, tables, ("number = 3", f"number = {number}"))


def agent_trial(
    agent: str, design: str = 'each = ["amnesia"]', number: int = 2, **code: str
) -> Files:
    """A trial of an agent, with the code that it names."""
    tables = f"""
[models.p]
[agents.a]
{agent}
[trial]
subjects = ["a"]
{design}
[scenarios]
use = "ledger"
number = {number}
recall = 5
inference = 0
novel = 1
[layout]
beliefs = 1
tested = 1
lag = 1
recall_every = 1
[conversation]
on_failure = "retry 1 then stop"
[sampling]
[run]
retry_wait = 0.0
"""
    if "amnesia" in design:
        tables += "[stressors.amnesia]\nfrequency = 0.5\nscope = 0.9\n"
    return changed(TRIAL | {f"{name}.py": text for name, text in code.items()}, tables)


# A phantom, and a subject whose replies nobody can read, with hostile names and texts.
STRESSED = changed(
    TRIAL
    | {
        "mumbler.py": f'''
"""A subject that never names an option, but tries to do something to the page."""

from dataclasses import dataclass

from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Mumbler:
    def open(self):
        return self

    async def reply(self, request):
        return Reply({HOSTILE!r}, "stop", 1, 1, "mumbler", 0.0)
'''
    },
    """
[study]
name = "stress <i>and</i> sham"
kind = "trial"
question = "Do <script>alert(1)</script> subjects bend?"
[models.phantom]
use = "subject"
[models.mumbler]
use = "mumbler:Mumbler"
[trial]
subjects = ["phantom", "mumbler"]
factorial = ["amnesia", "conformity"]
each = ["infallibility"]
dose = { conformity.size = [0, 8], amnesia.frequency = [0.2, 1.0], amnesia.scope = [0.3, 1.0] }
countermeasures = ["ledger"]
[stressors.infallibility]
rounds = 2
[[outcomes.primary]]
measure = "dfs"
arm = "conformity"
[[outcomes.primary]]
measure = "mci"
arm = "amnesia-with-ledger"
against = "amnesia"
[layout]
beliefs = 2
tested = 2
consensus = 0.6
[scenarios]
use = "ledger"
number = 3
recall = 4
inference = 2
novel = 1
[run]
seed = 5
[models.p]
[sampling]
""",
)

# A trial of ledgers that is quick to go through.
SMALL_TRIAL: Files = changed(
    TRIAL,
    """
[stressors.amnesia]
frequency = 0.5
[scenarios]
use = "ledger"
number = 2
recall = 4
inference = 2
novel = 1
[layout]
[sampling]
[run]
""",
)
