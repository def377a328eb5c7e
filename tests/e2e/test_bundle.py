"""A study as a bundle: complete, with the same numbers, tamper-evident and safe to build."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from chimeralab import pipeline
from chimeralab.bundle import verify_bundle, write_bundle
from chimeralab.bundle.check import _same_content, find_changed_files
from chimeralab.bundle.manifest import hashes_of, read_manifest, write_manifest
from chimeralab.core.errors import InputError
from chimeralab.study import RunOptions, Study
from chimeralab.study.database import MANIFEST
from chimeralab.version import __version__
from tests.plans import SELFPLAY, changed, trial
from tests.studies import DETECTED, REASON, RUN, MakeStudy, StudyCache

Chimera = Callable[..., Any]
QUIETLY = RunOptions(watch=False)
TABLES = """
[study]
name = "Flaky <b>phantoms</b>"
question = "Do repeaters loop | more?"
[models.flaky]
use = "flaky:Flaky"
[conditions.failing]
speakers = ["free", "flaky"]
[conversation]
turns = 6
on_failure = "retry 0 then stop"
[prompts]
file = "prompts.jsonl"
[detector]
use = "loops"
[outcomes]
resamples = 200
permutations = 200
"""
GATE = """
[gate]
raters = ["rules", "human:ann"]
threshold = 0.1
rule = "point"
"""
CODE = '''
"""A model that answers once in a conversation, and never about p2."""

from dataclasses import dataclass

from chimeralab.models.seam import ModelFailure, Reply


@dataclass(frozen=True)
class Flaky:
    def open(self):
        return self

    async def reply(self, request):
        if "/p2/" in request.conversation or request.turn > 2:
            raise ModelFailure("server", "out of order")
        return Reply("Something.")
'''
HASTY = '''
"""A measure of one's own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hasty:
    says = "hasty answers"

    def tally(self, rows):
        return len(rows) // 2, len(rows)
'''


PROMPTS = (json.dumps({"id": f"p{n}", "text": f"=Tale {n}.", "bucket": "x"}) for n in (1, 2, 3))
# A study with failures.
FLAKY = changed(SELFPLAY | {"flaky.py": CODE, "prompts.jsonl": "\n".join(PROMPTS)}, TABLES)
# In which rules and a person have labelled everything.
LABELLED = (*DETECTED, "rate rules", "label human:ann looping")


@pytest.fixture(scope="session")
def exported(studies: StudyCache) -> Path:
    """The folder of a study whose gate was decided, with its bundle, for tests to copy."""

    def make(folder: Path) -> None:
        study = studies.copy(folder / "study", FLAKY, GATE, steps=(*LABELLED, "audit"))
        write_bundle(study, folder / "bundle")

    return studies.once("bundle", make)


@pytest.fixture
def decided(exported: Path, tmp_path: Path) -> Study:
    return Study(shutil.copytree(exported / "study", tmp_path / "decided"), allow_code=True)


@pytest.fixture
def bundle(exported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(exported / "bundle", tmp_path / "bundle")


def places(folder: Path, **options: Any) -> set[str]:
    return {found.place for found in verify_bundle(Study(folder), **options).findings}


def test_bundle_has_everything_a_reader_needs(bundle: Path) -> None:
    names = set(hashes_of(bundle))
    tables = (
        "outcomes",
        "trajectories",
        "turns",
        "attempts",
        "events",
        "ratings",
        "sheets",
        "runs",
        "prompts",
        "revisions",
    )
    wanted = {
        "README.md", "CITATION.cff", "datasheet.md", "preregistration.md", "codebook.md",
        "plan.toml", "plan.lock", "prompts.jsonl", "flaky.py", "study.db", "trajectories.jsonl",
        "audit/gate-record.json", "audit/gate-record.md", "audit/validity.json", "versions.json",
        "report/index.html", "report/numbers.json", "report/numbers.tex", "ro-crate-metadata.json",
        *(f"tables/{name}.csv" for name in tables),
    }  # fmt: skip
    assert wanted <= names
    assert {name.rpartition("/")[0] for name in names - wanted} == {
        "report/figures",
        "report/tables",
        "steps",
    }
    assert "failed" in (bundle / "tables" / "trajectories.csv").read_text()
    assert "out of order" in (bundle / "tables" / "attempts.csv").read_text()
    assert REASON in (bundle / "tables" / "ratings.csv").read_text()


def test_bundle_verifies_by_its_root_hash_and_by_its_own(
    chimera: Chimera, decided: Study, bundle: Path
) -> None:
    ran = chimera("verify", bundle, "--expect", decided.root, "--json")
    assert (ran.code, ran.json["findings"], ran.json["deviations"]) == (0, [], [])
    assert ran.json["root"] == decided.root
    assert "rebuilt from the records" in " ".join(ran.json["checked"])
    [note] = [each for each in ran.json["notes"] if "hash of this bundle" in each]
    assert chimera("verify", bundle, "--quick", "--expect", note.split()[-1]).code == 0
    assert chimera("verify", bundle, "--quick", "--expect", "0" * 64).code == 1
    assert set(hashes_of(bundle)) == set(read_manifest(bundle))


def test_analyse_gives_every_number_of_the_study(
    chimera: Chimera, decided: Study, bundle: Path
) -> None:
    ours, theirs = (chimera("analyse", path, "--json").json for path in (decided.path, bundle))
    assert (ours.pop("source"), theirs.pop("source")) == (str(decided.path), str(bundle))
    assert ours == theirs
    assert ours["conditions"]["looping"]["mean"] > 0
    assert chimera("report", decided.path).code == 0
    numbers = (decided.path / "report" / "numbers.json").read_text()
    assert (bundle / "report" / "numbers.json").read_text() == numbers


def test_change_of_any_one_file_is_named(bundle: Path) -> None:
    for name in [*read_manifest(bundle), MANIFEST]:
        path = bundle / name
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        # The many files of the report are checked below; here only their hashes.
        brief = name.startswith(("report/figures/", "report/tables/"))
        found = (
            find_changed_files(bundle)
            if brief
            else verify_bundle(Study(bundle), quick=True).findings
        )
        assert any(name in str(each) for each in found), name
        path.write_bytes(content)
    (bundle / "tables" / "more.csv").write_text("a\n")
    (bundle / "flaky.py").unlink()
    assert places(bundle, quick=True) >= {"tables/more.csv", "flaky.py"}


def test_adjusted_manifest_does_not_hide_a_change(bundle: Path) -> None:
    derived = [
        "codebook.md", "preregistration.md", "trajectories.jsonl", "tables/outcomes.csv",
        "tables/turns.csv", "tables/prompts.csv", "report/index.html", "report/numbers.json",
        "report/numbers.tex", "report/tables/conditions.csv",
    ]  # fmt: skip
    for name in derived:
        text = (bundle / name).read_text(encoding="utf-8")
        (bundle / name).write_text(re.sub("[1-9]", "7", text, count=40), encoding="utf-8")
    write_manifest(bundle)
    assert places(bundle) == set(derived)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            "UPDATE turns SET text = 'Nicer.' WHERE turn = 1 AND trajectory LIKE 'free%'",
            "free/p1/1",
        ),
        ("UPDATE ratings SET label = 1 - label", "gate-1"),
        ("DELETE FROM ratings WHERE trajectory = 'free/p2/1'", "free/p2/1"),
        ("DELETE FROM detections WHERE trajectory LIKE 'free%'", "tables/outcomes.csv"),
        ("INSERT INTO withheld SELECT 'ratings', key FROM chain WHERE kind = 'ratings'", None),
    ],
)
def test_records_that_are_changed_with_their_manifest_are_found(
    bundle: Path, change: str, place: str | None
) -> None:
    with closing(sqlite3.connect(bundle / "study.db")) as db, db:
        db.execute(change)
    write_manifest(bundle)
    found = places(bundle, quick=True)
    assert place in found if place else not found
    with closing(sqlite3.connect(bundle / "study.db")) as db, db:
        db.execute("DELETE FROM ratings WHERE trajectory = 'looping/p3/1'")
    assert "looping/p3/1" in places(bundle, quick=True)


def test_no_sealed_label_is_anywhere_in_a_bundle(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(FLAKY, GATE, steps=LABELLED)
    ran = chimera("export", study.path, "--format", "bundle", "--out", tmp_path / "early")
    assert "left out until it is" in ran.err
    assert f"root hash {study.root}" in ran.out
    for path in (tmp_path / "early").rglob("*"):
        assert path.is_dir() or REASON.encode() not in path.read_bytes(), path
    found = chimera("verify", tmp_path / "early", "--json").json
    assert found["findings"] == []
    assert any("before the gate was decided" in note for note in found["notes"])
    assert "not decided" in (tmp_path / "early" / "datasheet.md").read_text()
    # A later bundle replaces the earlier one: the author's edits stay, everything else is updated.
    sheet, cited = tmp_path / "early" / "datasheet.md", tmp_path / "early" / "CITATION.cff"
    sheet.write_text(sheet.read_text().replace("**TO FILL IN**", "A friend."), encoding="utf-8")
    cited.write_text(cited.read_text().replace('"TO FILL IN"', "Ada"), encoding="utf-8")
    pipeline.audit(study)
    made = write_bundle(study, tmp_path / "early")
    assert (made.kept, made.stale) == (("CITATION.cff", "datasheet.md"), ())
    assert study.root in cited.read_text()
    assert "not decided" not in sheet.read_text()
    assert "Who funded it? A friend." in sheet.read_text()
    assert REASON in (tmp_path / "early" / "tables" / "ratings.csv").read_text()
    assert places(tmp_path / "early", expect=found["root"]) == set()


def test_study_without_lock_ratings_or_gate_becomes_a_bundle(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(FLAKY, steps=("run", "detect"))
    assert chimera("export", study.path, "--format", "bundle", "--out", tmp_path / "b").code == 0
    found = chimera("verify", tmp_path / "b", "--json").json
    assert (found["findings"], found["deviations"][0]["kind"]) == ([], "exploratory outcomes")
    assert "not a preregistration" in (tmp_path / "b" / "preregistration.md").read_text()
    assert not (tmp_path / "b" / "audit").exists()


def test_trial_becomes_a_bundle_with_the_same_numbers(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path
) -> None:
    own = '[measures.hasty]\nuse = "mine:Hasty"\n'
    files = trial(design='each = ["amnesia"]', number=2) | {"mine.py": HASTY}
    study = make_study(files, own, steps=RUN)
    assert chimera("export", study.path, "--format", "bundle", "--out", tmp_path / "b").code == 0
    ours, theirs = (chimera("analyse", p, "--json").json for p in (study.path, tmp_path / "b"))
    assert ours.pop("source") != theirs.pop("source")
    assert ours == theirs
    assert chimera("verify", tmp_path / "b").code == 0
    names = set(hashes_of(tmp_path / "b"))
    assert {"tables/trials.csv", "tables/probes.csv", "tables/outcomes.csv", "mine.py"} <= names
    assert "| hasty | hasty answers |" in (tmp_path / "b" / "codebook.md").read_text()
    assert ",hasty," in (tmp_path / "b" / "tables" / "outcomes.csv").read_text()
    path = tmp_path / "b" / "tables" / "outcomes.csv"
    path.write_text(path.read_text().replace("accuracy,", "accuracy,9", 1))
    write_manifest(tmp_path / "b")
    assert places(tmp_path / "b", quick=True) == {"tables/outcomes.csv"}


def test_rebuilt_bundle_is_the_same_and_keeps_the_authors_edits(
    decided: Study, bundle: Path
) -> None:
    sheet, cited = bundle / "datasheet.md", bundle / "CITATION.cff"
    sheet.write_text(sheet.read_text().replace("TO FILL IN", "Nobody"), encoding="utf-8")
    text = cited.read_text().replace('"TO FILL IN"', "Lovelace", 1).replace('"TO FILL IN"', "Ada")
    text = text.replace("# license:", "license:").replace("#   affiliation", "    affiliation")
    cited.write_text(text, encoding="utf-8")
    assert places(bundle, quick=True) == {"datasheet.md", "CITATION.cff"}
    once, again = write_bundle(decided, bundle), write_bundle(decided, bundle)
    assert (again.kept, again.blanks) == (("CITATION.cff", "datasheet.md"), {})
    assert again.sha256 == once.sha256
    assert "Nobody" in sheet.read_text()
    graph = {each["@id"]: each for each in crate_of(bundle)["@graph"]}
    assert graph["./"]["author"] == {"@id": "#author-1"}
    assert graph["#author-1"]["name"] == "Ada Lovelace"
    assert graph[graph["#author-1"]["affiliation"]["@id"]]["name"] == "The place where you work"
    assert graph["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert places(bundle, quick=True) == set()


def test_what_is_not_a_bundle_of_this_study_is_never_replaced(
    decided: Study, bundle: Path, make_study: MakeStudy, tmp_path: Path
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "thesis.tex").write_text("All my work.")
    with pytest.raises(InputError, match="neither empty nor a bundle"):
        write_bundle(decided, others)
    assert (others / "thesis.tex").read_text() == "All my work."
    (bundle / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt, which is not part of the bundle"):
        write_bundle(decided, bundle)
    (bundle / "notes.txt").unlink()
    another = make_study(FLAKY, steps=DETECTED)
    with pytest.raises(InputError, match="bundle of another study"):
        write_bundle(another, bundle)
    assert places(bundle, quick=True) == set()
    with pytest.raises(InputError, match="is a bundle already"):
        write_bundle(Study(bundle), tmp_path / "twice")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_failed_bundle_leaves_the_previous_one_alone(
    decided: Study, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> str:
        raise InputError("the disk is full")

    monkeypatch.setattr("chimeralab.bundle.build.write_report", fails)
    with pytest.raises(InputError, match="the disk is full"):
        write_bundle(decided, bundle)
    assert places(bundle, quick=True) == set()
    assert {path.name for path in bundle.parent.iterdir()} == {"bundle", "decided"}


def test_bundle_has_no_api_key(
    chimera: Chimera, decided: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-planted-0123456789-do-not-print"
    monkeypatch.setenv("LAB_KEY", key)
    with decided.plan_path.open("a") as plan:
        plan.write(f"# my key is {key}\n")
    ran = chimera("export", decided.path, "--format", "bundle", "--out", tmp_path / "b")
    assert (ran.code, key in ran.err) == (2, False)
    assert "plan.toml would contain the value of the environment variable LAB_KEY" in ran.err
    assert not (tmp_path / "b").exists()


def test_unfinished_study_is_rejected_in_one_sentence(
    chimera: Chimera, decided: Study, bundle: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(decided.store_path)) as db, db:
        db.execute("DELETE FROM detections WHERE trajectory LIKE 'free%'")
    ran = chimera("export", decided.path, "--format", "bundle", "--out", tmp_path / "b")
    assert (ran.code, "3 finished conversations have no verdict yet" in ran.err) == (2, True)
    ran = chimera("run", bundle, "--no-watch")
    assert (ran.code, "use the study it was made from" in ran.err) == (2, True)


def test_hash_is_not_compared_like_a_number(tmp_path: Path) -> None:
    # In a hash, "5e999" would be infinite, and equal to every other one.
    stored, again = tmp_path / "stored.md", tmp_path / "again.md"
    stored.write_text("Root hash a15e9993, share 0.5", encoding="utf-8")
    again.write_text("Root hash a15e9993, share 0.50000000001", encoding="utf-8")
    assert _same_content(stored, again)
    again.write_text("Root hash a15e9994, share 0.5", encoding="utf-8")
    assert not _same_content(stored, again)


def say_version(bundle: Path, version: str) -> None:
    """Let a bundle claim that another version made it, with a report to match."""
    for name, old in (("versions.json", '"bundle_made_with": "'), ("report/index.html", "<title>")):
        text = (bundle / name).read_text(encoding="utf-8")
        (bundle / name).write_text(text.replace(old, old + version, 1), encoding="utf-8")
    write_manifest(bundle)


def test_bundle_of_an_unlikely_version_is_a_finding(chimera: Chimera, bundle: Path) -> None:
    say_version(bundle, "9.")
    ran = chimera("verify", bundle, "--quick")
    assert ran.code == 1
    first = ran.out.split("\n  ")[1]
    assert first.startswith("versions.json: report, numbers and tables are not checked: it says")
    assert f"9.{__version__}" in first


def test_bundle_of_the_version_of_its_study_is_listed_as_not_checked(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimeralab.bundle.check.__version__", "9.0")
    verified = verify_bundle(Study(bundle), quick=True)
    assert verified.findings == ()
    derived = f"what chimera-lab {__version__} derived from the records, apart from its hashes"
    assert derived in "".join(verified.unchecked)


def crate_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ro-crate-metadata.json").read_text())
    return found


def test_crate_follows_the_ro_crate_specification(bundle: Path) -> None:
    crate = crate_of(bundle)
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    graph = crate["@graph"]
    entities = {each["@id"]: each for each in graph}
    assert len(entities) == len(graph)
    assert all("@type" in each for each in graph)
    # Flat: whatever an entity refers to is an id, and local ids are in the graph.
    for each in graph:
        for value in each.values():
            for item in value if isinstance(value, list) else [value]:
                assert isinstance(item, str) or set(item) == {"@id"}
                if isinstance(item, dict) and not item["@id"].startswith("https://w3id.org"):
                    assert item["@id"] in entities, item
    descriptor = entities["ro-crate-metadata.json"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"]["@id"].startswith("https://w3id.org/ro/crate/")
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", root["datePublished"])
    assert root["name"] == "Flaky <b>phantoms</b>"
    assert root["description"]
    assert root["license"]
    # Every file is described, linked from the root, and where it says it is.
    described = {unquote(part["@id"]) for part in root["hasPart"]}
    assert described == set(hashes_of(bundle)) - {"ro-crate-metadata.json"}
    for part in root["hasPart"]:
        file, path = entities[part["@id"]], bundle / unquote(part["@id"])
        assert file["@type"] == "File"
        assert int(file["contentSize"]) == path.stat().st_size
        assert file["description"]
        assert file["encodingFormat"] != "application/octet-stream"


def test_preregistration_has_the_order_of_the_osf_form(bundle: Path) -> None:
    text = (bundle / "preregistration.md").read_text()
    assert re.findall("^### (.+)$", text, re.MULTILINE) == [
        "Title", "Authors", "Description", "Hypotheses",
        "Study type", "Blinding", "Is there any additional blinding in this study?",
        "Study design", "Randomization",
        "Existing data", "Explanation of existing data", "Data collection procedures",
        "Sample size", "Sample size rationale", "Stopping rule",
        "Manipulated variables", "Measured variables", "Indices",
        "Statistical models", "Transformations", "Inference criteria", "Data exclusion",
        "Missing data", "Exploratory analysis", "Other",
    ]  # fmt: skip
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert json.loads((bundle / "plan.lock").read_text())["sha256"] in text


def test_preregistration_is_available_before_the_first_run(
    chimera: Chimera, tmp_path: Path
) -> None:
    assert chimera("new", tmp_path / "study", "--template", "selfplay").code == 0
    assert chimera("lock", tmp_path / "study").code == 0
    arguments = ("--format", "preregistration", "--out", tmp_path / "out")
    ran = chimera("export", tmp_path / "study", *arguments)
    text = (tmp_path / "out" / "preregistration.md").read_text()
    assert ran.out.split()[-1] in text
    assert "share of turns marked as collapsed, averaged over seed prompts: heat (warm +1" in text
    assert "sensitivity at least 0.50" in text
