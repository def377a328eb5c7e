"""A command in a process of its own, which a test is going to kill."""

import os
import sys
from collections.abc import Mapping, Sequence

from chimeralab.cli.main import main
from chimeralab.weights import MODELS
from tests.tiny_model import TINY


def chimera(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run the command silently, in a session of its own: whoever outlives it is found there."""
    os.setsid()
    os.environ.update(environment)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    MODELS["tiny"] = TINY
    sys.argv = ["chimera", *arguments]
    main()
