"""Structure-aware mutations: a sample is parsed, its tree and its bytes are changed, and it is
written again.

Everything is drawn from the `random.Random` that the caller passes in, so a seed repeats a case.
"""

import csv
import gzip
import io
import json
import marshal
import re
import sqlite3
import struct
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from random import Random
from typing import Any

from chimeralab.readers.seam import Unreadable
from chimeralab.readers.stores import unpack
from chimeralab.readers.streams import parse_values, read_member
from tests import zstd

MAX_BYTES = 400_000
# What JSON may hold but Python does not write: the text of a string becomes the literal itself.
LITERALS = {
    "@nan@": "NaN",
    "@inf@": "-Infinity",
    "@large@": "1e999",
    "@long@": "9" * 5_000,
    "@zero@": "-0.0",
    "@twice@": '{"role":"user","role":"assistant","content":"a","content":"b"}',
    "@half@": '"\\ud83d"',
    "@escape@": '"\\x"',
    "@comma@": "[1,]",
    "@lists@": "[" * 900 + "]" * 900,
    "@objects@": '{"content":' * 900 + "1" + "}" * 900,
    "@abyss@": "[" * 60_000,
}
_MARK = re.compile('"(@[a-z]+@)"')
ODD: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 0.5, -1.5, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 1e308),
    *("", " ", "\n", "\x00", "\ud800", "\u202e\u2066", "\ufeff", "\u2028", "é", "a\u0301" * 3),
    *("null", "true", "[]", "{}", "[1]", '{"a": 1}', "NaN", "1e400", "٣", "²", "=1+1", "../../x"),
    *("\x1b[31m", "<script>", "</think>", "&amp;", "%s", "{0}", "${x}", "None", "undefined"),
    *([], {}, [[]], [{}], [None], {"": {}}, [1, "1"], {"role": "user"}, {"type": "text"}),
    *LITERALS,
)
ROLES = (
    *("user", "assistant", "system", "tool", "function", "developer", "human", "gpt", "model"),
    *("User", "", "ASSISTANT ", "ai", "bot", "thought", None, 1),
)
TIMES = (
    *("2025-02-30T25:61:61Z", "0000-00-00", "2025-01-01", "now", "1e18", "", "2025-01-01T00:00:00"),
    *(-1, 0, 1e18, 2**70, 1735689600000, True, None),
)
_ROLE = re.compile(r"role|speaker|author|from|sender|source|type|kind", re.I)
_TIME = re.compile(r"time|date|start|end|created|at$|ts$", re.I)
_NAME = re.compile(r"id$|uuid|parent|cause|call|children|node|index|key", re.I)

Places = list[tuple[Any, Any]]


def mutate_tree(tree: Any, rng: Random, keys: Sequence[str] = ("role", "content", "id")) -> Any:
    """Change a few places of a tree of dicts and lists; returns the tree."""
    holder = [tree]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        at, key = _descend(holder, rng)
        _CHANGES[rng.randrange(len(_CHANGES))](at, key, rng, holder, keys)
    return holder[0] if holder else None


def _descend(tree: Any, rng: Random) -> tuple[Any, Any]:
    """Walk to a random place: a container and a key of it."""
    at, key = tree, 0
    node = tree
    while isinstance(node, dict | list) and node:
        at = node
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        node = at[key]
        if rng.random() < 0.15:
            break
    return at, key


def _places(tree: Any) -> Places:
    """Every container and key of a tree, from the top down."""
    found, left = [], [tree]
    while left:
        at = left.pop()
        for key, value in list(at.items()) if isinstance(at, dict) else enumerate(at):
            found.append((at, key))
            if isinstance(value, dict | list):
                left.append(value)
    return found


def _get(at: Any, key: Any) -> Any:
    return at[key] if isinstance(at, dict) or key < len(at) else None


def _put(at: Any, key: Any, value: Any) -> None:
    if isinstance(at, dict) or key < len(at):
        at[key] = value
    else:
        at.append(value)


def _copy(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))


def _drop(at: Any, key: Any, rng: Random, *_: Any) -> None:
    if isinstance(at, dict):
        at.pop(key, None)
    else:
        del at[key : key + rng.choice((1, 1, 2, len(at)))]


def _duplicate(at: Any, key: Any, rng: Random, _tree: Any, keys: Sequence[str]) -> None:
    value = _get(at, key)
    if isinstance(at, list):
        for _ in range(rng.choice((1, 1, 2, 5))):
            at.insert(rng.randint(0, len(at)), _copy(value))
    else:
        at[rng.choice(keys)] = _copy(value)


def _odd(at: Any, key: Any, rng: Random, *_: Any) -> None:
    _put(at, key, _copy(rng.choice(ODD)))


def _retype(at: Any, key: Any, rng: Random, *_: Any) -> None:
    """Write the same in another type: a number as text, a text as a list, an object as pairs."""
    value = _get(at, key)
    others: list[Any] = [[value], {"text": value}, [value, value], None]
    match value:
        case bool() | int() | float() | None:
            others.append(str(value))
        case str():
            others += [len(value), list(value[:20]), value.encode("utf-8", "replace")[:3].hex()]
        case dict():
            others += [list(value), list(value.values()), list(map(list, value.items()))]
        case list():
            others += [dict(enumerate(map(str, range(len(value))))), value[0] if value else None]
            others.append({str(n): each for n, each in enumerate(value)})
    with suppress(TypeError, ValueError):
        others.append(json.dumps(value))
    _put(at, key, rng.choice(others))


def _nest(at: Any, key: Any, rng: Random, _tree: Any, keys: Sequence[str]) -> None:
    value = _get(at, key)
    for _ in range(rng.choice((1, 2, 20, 200))):
        value = [value] if rng.random() < 0.5 else {rng.choice(keys): value}
    _put(at, key, value)


def _swap(at: Any, key: Any, rng: Random, tree: Any, _keys: Any) -> None:
    other, there = _descend(tree, rng)
    mine, yours = _copy(_get(at, key)), _copy(_get(other, there))
    _put(at, key, yours)
    _put(other, there, mine)


def _graft(at: Any, key: Any, rng: Random, tree: Any, _keys: Any) -> None:
    other, there = _descend(tree, rng)
    _put(at, key, _copy(_get(other, there)))


def _rename(at: Any, key: Any, rng: Random, _tree: Any, keys: Sequence[str]) -> None:
    if not isinstance(at, dict) or key not in at:
        return
    name = str(key)
    others = (rng.choice(keys), name.upper(), name + "s", "", name * 300, name + "\u200b")
    at[rng.choice(others)] = at.pop(key)


def _stretch(at: Any, key: Any, rng: Random, *_: Any) -> None:
    """Make a text long: much of one letter, of one word, of spaces, of open brackets."""
    value = _get(at, key)
    seed = value if isinstance(value, str) and value else "word "
    piece = rng.choice((seed[:40], "a", " ", "\n", "[", "a b ", "```\n", "<think>", "\ud83d\ude00"))
    _put(at, key, piece * (rng.choice((50, 500, 4_000)) // len(piece) + 1))


def _cut(at: Any, key: Any, rng: Random, *_: Any) -> None:
    value = _get(at, key)
    if isinstance(value, str | list):
        _put(at, key, value[: rng.randint(0, len(value))])


def _inside(at: Any, key: Any, rng: Random, tree: Any, keys: Sequence[str]) -> None:
    """Change what a text holds as JSON, as arguments and attributes do, or a cell as msgpack."""
    value = _get(at, key)
    if isinstance(value, bytes):
        with suppress(Unreadable, struct.error, RecursionError):
            value = pack(mutate_tree(unpack(value, 0)[0], rng, keys))
        _put(at, key, value if rng.random() < 0.7 else mutate_bytes(value, rng))
        return
    with suppress(ValueError, TypeError, RecursionError):
        _put(at, key, json.dumps(mutate_tree(json.loads(value), rng, keys)))


def pack(value: Any) -> bytes:
    """Pack a value as msgpack; a pair of a class and its fields is a message of LangChain."""
    match value:
        case None | bool():
            return bytes([{None: 0xC0, False: 0xC2, True: 0xC3}[value]])
        case int() | float():
            is_float = isinstance(value, float)
            return struct.pack(*(">Bd", 0xCB, value) if is_float else (">BQ", 0xD3, value % 2**64))
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return struct.pack(">BI", 0xDB, len(text)) + text
        case list():
            return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(pack, value))
        case dict():
            inner = b"".join(pack(key) + pack(each) for key, each in value.items())
            return struct.pack(">BI", 0xDF, len(value)) + inner
        case (name, fields):
            inner = pack(["langchain_core.messages", name, fields, "model_validate_json"])
            return struct.pack(">BIb", 0xC9, len(inner), 5) + inner
    raise TypeError(value)


def _among(pattern: re.Pattern[str]) -> Callable[..., None]:
    def change(_at: Any, _key: Any, rng: Random, tree: Any, _keys: Any) -> None:
        named = [place for place in _places(tree) if pattern.search(str(place[1]))]
        if not named:
            return
        at, key = rng.choice(named)
        if pattern is _ROLE:
            at[key] = rng.choice(ROLES)
        elif pattern is _TIME:
            at[key] = rng.choice(TIMES)
        else:  # names that point at each other, or at themselves
            other, there = rng.choice(named)
            mine, yours = at[key], other[there]
            if not isinstance(mine, dict | list) and not isinstance(yours, dict | list):
                at[key] = yours
                if rng.random() < 0.5:
                    other[there] = mine

    return change


def _reverse(at: Any, key: Any, rng: Random, *_: Any) -> None:
    value = _get(at, key)
    value = value if isinstance(value, list) else at
    if isinstance(value, list):
        value.reverse() if rng.random() < 0.5 else rng.shuffle(value)


_CHANGES: Sequence[Callable[..., None]] = (
    *(_drop, _drop, _duplicate, _odd, _odd, _odd, _retype, _retype, _nest, _swap, _graft, _graft),
    *(_rename, _stretch, _cut, _inside, _inside, _reverse),
    *(_among(_ROLE), _among(_TIME), _among(_NAME), _among(_NAME)),
)


def mutate_bytes(raw: bytes, rng: Random) -> bytes:
    """Truncate, splice, flip, repeat or encode bytes in another way."""
    data = bytearray(raw or b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) or 1)
        end = min(len(data), start + rng.choice((1, 2, 8, 64, 1_000)))
        match rng.randrange(8):
            case 0:
                del data[start:]
            case 1:
                del data[start:end]
            case 2:
                data[rng.randrange(len(data) or 1) : 0] = data[start:end]
            case 3 if data:
                data[start] ^= 1 << rng.randrange(8)
            case 4:
                data[start:end] = rng.randbytes(end - start)
            case 5:
                data[start:start] = rng.choice(_ODD_BYTES)
            case 6:
                data = bytearray(_encode(bytes(data), rng))
            case 7:
                data[start:end] = data[start:end] * rng.choice((2, 3, 30))
    return bytes(data[:MAX_BYTES])


_ODD_BYTES = (
    *(b"\0", b"\r", b"\n\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8", b"\x1f\x8b", b"PK\3\4"),
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"'", b"#", b"\xc3", b"\xed\xa0\x80"),
    b"---\n",
    *(b"\x85", b"\x0b", b"\x1c", b"Ann: ", b"[1, 2]\n", b"{}\n", b"null\n", b"\x28\xb5\x2f\xfd"),
)


def _encode(data: bytes, rng: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    code = rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "crlf", "cr", "gz"))
    match code:
        case "crlf":
            return data.replace(b"\n", b"\r\n")
        case "cr":
            return data.replace(b"\n", b"\r")
        case "gz":
            return rng.choice((_gzip, zstd.compress))(data)
    return text.encode(code, "replace")


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


# How files are parsed to trees, and trees written as files.


def _write_json(tree: Any) -> str:
    text = json.dumps(tree, default=str)
    return _MARK.sub(lambda found: LITERALS.get(found[1], found[0]), text) if "@" in text else text


def _write_lines(tree: Any) -> bytes:
    return "\n".join(map(_write_json, tree if isinstance(tree, list) else [tree])).encode()


def _write_csv(tree: Any) -> bytes:
    file = io.StringIO()
    rows = tree if isinstance(tree, list) else [tree]
    for row in rows:
        with suppress(csv.Error):
            csv.writer(file).writerow(row if isinstance(row, list) else [row])
    return file.getvalue().encode("utf-8", "surrogatepass")


def _write_text(tree: Any) -> bytes:
    rows = tree if isinstance(tree, list) else [tree]
    return "\n".join(map(str, rows)).encode("utf-8", "surrogatepass")


def _read_parquet(raw: bytes) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415 - the light install has none

    return pq.read_table(io.BytesIO(raw)).to_pylist()


def _write_parquet(tree: Any) -> bytes:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    file = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(tree), file)
    except (pa.ArrowException, TypeError, AttributeError, ValueError, LookupError, OverflowError):
        return _write_lines(tree)  # values of one column that have no common type
    return file.getvalue()


def _read_sqlite(raw: bytes) -> Any:
    with closing(sqlite3.connect(":memory:")) as db:
        # Bytes 18 and 19 ask for a write-ahead log, which there is none of in memory.
        db.deserialize(raw[:18] + b"\1\1" + raw[20:])
        tables = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        return [
            [sql, [list(row) for row in db.execute(f'SELECT * FROM "{name}"')]]
            for name, sql in tables
        ]


def _write_sqlite(tree: Any) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("PRAGMA user_version = 1")  # so that there is a page without tables, too
        for table in tree if isinstance(tree, list) else []:
            with suppress(sqlite3.Error, TypeError, ValueError, AttributeError, OverflowError):
                sql, rows = table
                db.execute(sql)
                name = re.search(r'table\s+"?(\w+)', sql, re.I)[1]
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    cells = [_write_json(c) if isinstance(c, dict | list) else c for c in row]
                    with suppress(sqlite3.Error, OverflowError, UnicodeError):
                        db.execute(f'INSERT INTO "{name}" VALUES ({marks})', cells)
        return db.serialize()


def write_toml(tree: Any) -> bytes:
    """Write tables as inline ones; what TOML can't hold becomes text."""
    if not isinstance(tree, dict):
        return _write_json(tree).encode()
    lines = (f"{json.dumps(str(key))} = {_toml(value)}" for key, value in tree.items())
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    match value:
        case dict():
            pairs = (f"{json.dumps(str(key))} = {_toml(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
    return json.dumps("" if value is None else str(value))


_FORMS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "json": (json.loads, lambda tree: _write_json(tree).encode()),
    "lines": (lambda raw: [value for value, _ in parse_values(raw)], _write_lines),
    "csv": (lambda raw: list(csv.reader(raw.decode().splitlines())), _write_csv),
    "text": (lambda raw: raw.decode("utf-8", "replace").split("\n"), _write_text),
    "toml": (lambda raw: tomllib.loads(raw.decode()), write_toml),
    "parquet": (_read_parquet, _write_parquet),
    "sqlite": (_read_sqlite, _write_sqlite),
}
_MAGIC = {b"\x1f\x8b": "gzip", b"PK": "zip", b"PAR1": "parquet", b"SQLite format 3": "sqlite"}


@lru_cache(maxsize=1_000)
def _parse(raw: bytes, form: str | None) -> tuple[str, bytes, list[str]]:
    """Find the form of a sample, its tree as bytes, and the keys that occur in it."""
    form = form or next((name for magic, name in _MAGIC.items() if raw.startswith(magic)), None)
    if form in ("gzip", "zip"):
        return form, b"", []
    is_table = b"," in raw.partition(b"\n")[0] and raw[:1] not in b"{["
    for name in (form,) if form else ("json", "lines", "csv" if is_table else "text"):
        with suppress(ValueError):
            tree = _FORMS[name][0](raw)
            named = {str(key) for _, key in _places([tree]) if isinstance(key, str)}
            return name, marshal.dumps(tree), sorted(named) or ["id"]
    return "text", marshal.dumps(_FORMS["text"][0](raw)), ["id"]


def mutate(raw: bytes, rng: Random, keys: Sequence[str] = (), *, form: str | None = None) -> bytes:
    """Change a file in its structure, in its bytes, or in both.

    `keys` are names that other files use; `form` is for what its bytes don't tell, such as TOML.
    """
    name, dumped, own_keys = _parse(raw, form)
    chance = rng.random()
    if name == "gzip":
        return mutate_bytes(raw, rng) if chance < 0.1 else _gzip(mutate(_unzip(raw), rng, keys))
    if name == "zip":
        return mutate_bytes(raw, rng) if chance < 0.2 else _mutate_zip(raw, rng, keys)
    if chance >= 0.15:
        known = [*own_keys, rng.choice(keys)] if keys else own_keys
        tree = mutate_tree(marshal.loads(dumped), rng, known)
        if rng.random() < 0.004:
            tree = _grow(tree, rng)
        with suppress(RecursionError):
            raw = _FORMS[name][1](tree)[:MAX_BYTES]
    return mutate_bytes(raw, rng) if chance < 0.3 else raw


def _grow(tree: Any, rng: Random) -> Any:
    """Repeat the items of a list until the file is large."""
    lists = [at[key] for at, key in _places([tree]) if isinstance(at[key], list) and at[key]]
    if lists:
        longest = rng.choice(lists)
        longest *= rng.randint(2, max(2, MAX_BYTES // (1 + len(_write_json(longest)))))
    return tree


@lru_cache(maxsize=100)
def _unzip(raw: bytes) -> bytes:
    return gzip.decompress(raw)


@lru_cache(maxsize=100)
def _members(raw: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:  # Inspect's members are in zstd
        return [(name, read_member(archive, name)) for name in archive.namelist()]


def _mutate_zip(raw: bytes, rng: Random, keys: Sequence[str]) -> bytes:
    members = list(_members(raw))
    if not members:
        return mutate_bytes(raw, rng)
    at = rng.randrange(len(members))
    name, content = members[at]
    match rng.randrange(8):
        case 0:
            del members[at]
        case 1:
            members.append((rng.choice((name, "../" + name, "", name.upper(), "x" * 300)), content))
        case _:
            members[at] = name, mutate(content, rng, keys)
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)  # without the time of day
            info.compress_type = method
            with suppress(UserWarning):
                archive.writestr(info, content)
    return file.getvalue()
