"""Puts the compiled encoder into the wheel; without a compiler, the wheel is pure Python."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "chimeralab/embedding"


class CompiledEncoder(BuildHookInterface[Any]):
    """Compiles for a wheel into a temporary folder, and for an editable install into the tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = runpy.run_path(str(Path(self.root, "src", PLACE, "build.py")))
        self._folder = tempfile.TemporaryDirectory()
        library = build["LIBRARY"]
        if version != "editable":
            library = Path(self._folder.name, library.name)
        why_not = build["compile_library"](library)
        if why_not:
            self.app.display_warning(
                f"the fast encoder was not compiled ({why_not}); numpy will compute the vectors"
            )
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{build['platform_tag']()}"
        if version != "editable":
            for file in (library, library.with_name(f"{library.name}.sha256")):
                build_data["force_include"][str(file)] = f"{PLACE}/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
