"""A real OpenAI-compatible server on loopback: SmolLM2 in llama.cpp, in a separate process.

Run as a script, it prints its address and serves until its standard input is closed.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL_NAME = "smollm2-test"


@contextmanager
def smollm_server(gguf: Path, *, context: int = 1024, key: str = "") -> Iterator[str]:
    """The address of a running server, with `/v1` at its end. `context` is shared by two slots."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(gguf), str(context), key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = next((line for line in process.stdout if line.startswith("http")), None)
        assert address, "the server did not start"
        yield f"{address.strip()}/v1"
    finally:
        process.kill()
        process.wait()


def _serve(gguf: str, context: str, key: str) -> None:
    # only the server process needs it
    import xllamacpp  # type: ignore[import-untyped, unused-ignore] # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.model_alias = {MODEL_NAME}
    params.n_ctx = int(context)
    params.n_parallel = 2
    params.port = 0
    params.warmup = False
    params.api_keys = [key] if key else []
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
