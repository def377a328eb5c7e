"""The files of the index of wild logs, and of a few repositories more, that are on this machine.

Samples lie next to the index. The other files are read in their public repositories, if the folder
that `CHIMERA_REPOSITORIES` names has them as `owner+name/repo`. Nothing of them is ever committed.
"""

import csv
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WILD = Path(
    os.environ.get("CHIMERA_WILD") or Path(__file__).parents[3] / "shared" / "data" / "wild"
)
REPOSITORIES = os.environ.get("CHIMERA_REPOSITORIES")
MORE = (
    ("who-and-when", "mingyin1/Agents_Failure_Attribution", "Who&When/"),
    ("agentrx", "microsoft/AgentRx", "trajectories/magentic-one/trajectories/"),
    ("agentrx", "microsoft/AgentRx", "trajectories/tau-retail/"),
    # Its other traces are for the benchmark, which runs them once.
    ("trail", "patronus-ai/trail-benchmark", "benchmarking/data/SWE Bench/"),
    ("langgraph", "AJINKYA-TEMGIRE/Chatbot_with_langgraph", "chatbot.db"),
    ("langgraph", "RutamBhagat/Code-Wizard-LangGraph-C_RAG", "checkpoints.sqlite"),
    ("langgraph", "ferrerallan/langgraph-human-feedback", "checkpoints.sqlite"),
    ("langgraph", "matheusg18/langgraph-course", "checkpoints.db"),
    ("openai-sessions", "Ahmednoorani258/agentssdk-learning", "conversations.db"),
    ("openai-sessions", "Ahmednoorani258/agentssdk-learning", "support_conversations.db"),
    ("openai-sessions", "Muhammad-Talha33/custom-web-search-tool", "conversations.db"),
)
"""Files and folders of repositories that are not in the index: source, repository and path."""


class WildFile(NamedTuple):
    """A log of the index."""

    source: str
    repository: str
    path: str
    sample: str

    def fetch(self, folder: Path) -> Path | None:
        """Return the file on this machine, copied to a folder if it is in a repository."""
        if self.sample:
            return WILD / self.sample
        copy = folder / self.source / self.repository.replace("/", "+") / self.path
        if not copy.exists():
            found = git(self.repository, "show", f"HEAD:{self.path}")
            if found is None:
                return None
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(found)
        return copy


def git(repository: str, *words: str) -> bytes | None:
    """Return what git prints about a repository; None if it or the object is not here."""
    where = Path(REPOSITORIES or "") / repository.replace("/", "+") / "repo"
    if not REPOSITORIES or not where.is_dir():
        return None
    command = ["git", "--git-dir", str(where), "-c", "core.quotePath=false", *words]
    found = subprocess.run(command, capture_output=True, check=False)
    return None if found.returncode else found.stdout


def wild_files() -> Iterator[WildFile]:
    """Yield the files of the index and of the other repositories that are on this machine."""
    for source, repository, folder in MORE:
        listed = git(repository, "ls-tree", "-r", "--name-only", "HEAD", folder) or b""
        for path in listed.decode().splitlines():
            yield WildFile(source, repository, path, "")
    if not (WILD / "index.csv").exists():
        return
    with (WILD / "index.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield WildFile(row["source"], row["repository"], row["path"], row["sample"])
