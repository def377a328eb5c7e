"""The encoders on one whole set, in turn: each against sentence-transformers, and its own limit.

Tokenising counts for all of them. What is not installed is left out and named. Wall time has all
cores; CPU time says the same with less noise where other work shares the machine.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import reference, transcripts
from benchmarks.table import Result, keep
from chimeralab import weights
from chimeralab.detection.seam import list_judged_turns
from chimeralab.embedding.kernel import Kernel, KernelUnusable
from chimeralab.embedding.minilm import LAYERS, WIDTH, MiniLM, WordPieces, group_by_length
from chimeralab.weights.tensors import read_tensors

COMMAND = "OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.encoders"
ROUNDS = 5
BASE = "sentence-transformers"
# Multiplications and additions in the linear layers, for one piece.
OPERATIONS = 2 * LAYERS * 12 * WIDTH**2

Texts = Sequence[str]
Encode = Callable[[Texts], object]


class Spent(NamedTuple):
    """Seconds for the whole set."""

    wall: float
    cpu: float


def main() -> None:
    texts = distinct_texts()
    with tempfile.TemporaryDirectory() as name:
        encoders, pieces = contenders(Path(name), texts)
        peak = compiled_peak(Path(name))
        runs: dict[str, list[Spent]] = {each: [] for each in encoders}
        peaks = []
        for _ in range(ROUNDS):
            for each, encode in encoders.items():
                runs[each].append(spent(encode, texts))
                print(f"  {each}: {runs[each][-1].wall:.1f} s, {runs[each][-1].cpu:.1f} CPU-s")
            peaks.append(float(subprocess.run(peak, check=True, capture_output=True).stdout))
    limit = statistics.median(peaks)
    for each, times in runs.items():
        if each != BASE:
            report(each, times, runs[BASE], f"{len(texts)} texts, {pieces:,} pieces")
    if "int16 in C" in runs:
        fastest = statistics.median(times.cpu for times in runs["int16 in C"])
        reached = pieces * OPERATIONS / fastest / 1e9
        share = f"{100 * reached / limit:.0f} %"
        note = f"{reached:.0f} of {limit:.0f} Gop per CPU-s and core, tokenising included"
        keep(Result("encoder, share of the int16 limit", share, "reported", True, COMMAND, note))


def report(name: str, times: list[Spent], base: list[Spent], what: str) -> None:
    """Ratios of medians: more than 1 is faster than sentence-transformers."""
    ratios = [
        statistics.median(each[kind] for each in base)
        / statistics.median(each[kind] for each in times)
        for kind in (0, 1)
    ]
    value = f"{ratios[0]:.2f} x wall, {ratios[1]:.2f} x CPU"
    note = f"{what}; against {BASE}, medians of {ROUNDS} interleaved runs"
    keep(Result(f"encoder, {name}", value, "reported", True, COMMAND, note))


def spent(encode: Encode, texts: Texts) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    encode(texts)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def distinct_texts() -> list[str]:
    talks = transcripts.selfchats()
    return list(dict.fromkeys(turn.text for talk in talks for turn in list_judged_turns(talk)))


def contenders(folder: Path, texts: Texts) -> tuple[dict[str, Encode], int]:
    """Every encoder that runs here, warmed up, and the number of pieces of the texts."""
    files = weights.ensure("minilm")
    words, tensors = WordPieces(files / "tokenizer.json"), read_tensors(files / "model.safetensors")
    model = reference.load(folder)
    found: dict[str, Encode] = {BASE: lambda texts: model.encode(texts, batch_size=32)}

    def split(texts: Texts) -> list[list[int]]:
        return [pieces for pieces, _ in words.split(texts)]

    numpy = MiniLM(tensors)
    found["numpy f32"] = lambda texts: numpy(split(texts))
    try:
        kernel = Kernel(tensors)
        found["int16 in C"] = lambda texts: kernel(split(texts))
    except KernelUnusable as why:
        print(f"int16 in C: left out, because {why}")
    try:
        session = onnx_session(model, folder)
        found["ONNX Runtime f32"] = lambda texts: run_onnx(session, split(texts))
    except ImportError as why:
        print(f"ONNX Runtime f32: left out ({why})")
    for encode in found.values():
        encode(texts[:40])
    return found, sum(map(len, split(texts)))


def onnx_session(model: Any, folder: Path) -> Any:
    """The transformer as ONNX, exported by PyTorch."""
    import onnxruntime  # noqa: PLC0415 - optional
    import onnxscript  # noqa: F401, PLC0415 - what the export needs
    import torch  # noqa: PLC0415

    sizes = {"input_ids": {0: "texts", 1: "pieces"}, "attention_mask": {0: "texts", 1: "pieces"}}
    example = torch.ones((2, 8), dtype=torch.int64)
    path = folder / "minilm.onnx"

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model[0].auto_model.eval()

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.network(input_ids=ids, attention_mask=mask).last_hidden_state

    torch.onnx.export(
        Hidden(),
        (example, example),
        str(path),
        input_names=list(sizes),
        output_names=["hidden"],
        dynamic_axes=sizes,
        dynamo=False,
    )
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run_onnx(session: Any, texts: list[list[int]]) -> np.ndarray:
    """Batches of like length, as a careful user would make them."""
    vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
    for group in group_by_length(texts, 2_048):
        longest = max(len(texts[index]) for index in group)
        ids = np.zeros((len(group), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, index in enumerate(group):
            ids[row, : len(texts[index])] = texts[index]
            mask[row, : len(texts[index])] = 1
        [hidden] = session.run(["hidden"], {"input_ids": ids, "attention_mask": mask})
        means = (hidden * mask[:, :, None]).sum(axis=1)
        vectors[group] = means / np.linalg.norm(means, axis=1, keepdims=True)
    return vectors


def compiled_peak(folder: Path) -> list[str]:
    """The loop that measures what this CPU could do at most."""
    compiler = shutil.which("cc") or "gcc"
    program, source = folder / "peak", Path(__file__).with_name("peak.c")
    subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return [str(program)]


if __name__ == "__main__":
    main()
