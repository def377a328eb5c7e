"""The manifest of a bundle: the SHA-256 of every file, as `sha256sum --check` reads it.

The hash of the manifest itself is the hash of the bundle.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.core.files import file_hash, read_regular, write_text
from chimeralab.study.database import MANIFEST

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def is_bundle(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() and (folder / "plan.toml").is_file()


def bundle_hash(folder: Path) -> str:
    return file_hash(folder / MANIFEST)


def hashes_of(folder: Path) -> dict[str, str]:
    """Hash every file in a folder by its relative path, except the manifest and hidden files."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {
        name: file_hash(path)
        for name, path in sorted(files.items())
        if name != MANIFEST and path.is_file() and not re.search(r"(^|/)\.", name)
    }


def write_manifest(folder: Path) -> None:
    write_text(folder / MANIFEST, manifest_text(hashes_of(folder)))


def manifest_text(hashes: Mapping[str, str]) -> str:
    return "".join(f"{sha}  {name}\n" for name, sha in hashes.items())


def read_manifest(folder: Path) -> dict[str, str]:
    """Read the expected hash of each file; only the exact format we write is accepted."""
    try:
        text = read_regular(folder / MANIFEST).decode()
        found = [_LINE.fullmatch(line) for line in text.splitlines()]
        hashes = {match[2]: match[1] for match in found if match}
        if manifest_text(dict(sorted(hashes.items()))) == text:
            return hashes
    except UnicodeDecodeError:
        pass
    except OSError as error:
        raise InputError(f"{folder / MANIFEST} can't be read ({error.strerror})") from error
    raise InputError(f"{MANIFEST} was edited: it is not a sorted list of hashes and files")
