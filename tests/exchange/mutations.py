"""Damage for readers: a seeded stream of changed files, and a long run over every format by hand.

    python tests/exchange/mutations.py --seconds 180 [--seed N] [FILE ...]

Every reader must give a document or refuse in one line; anything else is printed with the file that did it and kept.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import formats
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape

NUMBER = re.compile(rb"x[0-9a-f]{8}|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_]{1,20}")
EXTREMES = tuple(
    b"0 -1 1e308 -1e308 1e999 nan inf x7f800000 xffffffff x7f7fffff 99999999999999999999 2147483648 -2147483649 "
    b"0.0000000001 1e-320 16777217 1000000 '' 1,5 0x10 --1 1_0".split()
)
SIGNS = (
    b"{",
    b"}",
    b"(",
    b")",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\n",
    b"\0",
    b"<",
    b">",
    b"/",
    b",",
    b":",
    b";",
    b"\xff",
    b"\xc3",
    b" ",
)
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1, 0.5, 2**31, -(2**63), 10**30, 1e308, -1e308, 5e-324)
VALUES += (float("nan"), float("inf"), "", " ", "0", "1-9", "9-1", "1-999999999", "*", "auto", "#" * 300, "a/../../b")
VALUES += ("a\nb", "a\x1b[31mb", "\x00", "\ud800", "\U0001f3ad", [], [[]], {}, {"": None}, [0] * 300, ["a"] * 3)
SLOW_S = 10.0


def sample() -> RotoDocument:
    """A small document that uses every feature."""
    lid = (ControlPoint(10, 20, -1, 0, 1, 0.5), ControlPoint(90, 20, 0, -1, 0, 1), ControlPoint(50, 62.25, 1, 0, -1, 0))
    keys = {5: Key(lid), 6: Key(lid, "human", "hold"), 9: Key(tuple(p._replace(x=p.x + 4) for p in lid))}
    eye = RotoShape("pip/eye", True, "matte", keys, feather_px=2.0, visible={7: False})
    seam = RotoShape("seam", False, "seam", {5: Key(lid[:2]), 8: Key(lid[1:])}, width_px=3.5, taper=(0.1, 0.0))
    marks = LandmarkKeys(("nose",), {5: (Landmark(1.0, 2.0, 0.5),)})
    return RotoDocument(100, 80, 5, 9, landmarks=marks, shapes=(eye, seam))


def seeds(folder: Path) -> list[Path]:
    """A good file for every suffix that can be written and read."""
    both = [each for each in formats.FORMATS if each.read is not None and each.write is not None]
    return [seed(folder, each.suffixes[0]) for each in both]


def seed(folder: Path, suffix: str) -> Path:
    """A good file of one format; the first one for formats with a file per frame."""
    path = folder / f"seed{suffix}"
    formats.write(path, sample())
    return path if path.is_file() else sorted(folder.glob(f"seed*{suffix}") or folder.rglob("seed*"))[0]


def mutated(data: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    """The data with one to four random defects."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = chance.choice((_cut, _number, _number, _sign, _repeat, _swap, _word, _truncate))(data, chance)
    return data


def reshaped(data: bytes, chance: random.Random) -> bytes:
    """JSON, JSON lines or YAML with one to three values, names or rows changed, still well-formed.

    Other or long data is changed as by `mutated`.
    """
    lines = data.split(b"\n")
    row = chance.randrange(len(lines))
    for part in (data, lines[row]):
        tree = _tree(part)
        if isinstance(tree, (dict, list)) and tree:
            for _ in range(chance.choice((1, 1, 2, 3))):
                _graft(tree, chance)
            text = json.dumps(tree).encode()
            return text if part is data else b"\n".join([*lines[:row], text, *lines[row + 1 :]])
    return mutated(data, chance)


def _tree(data: bytes) -> Any:
    if len(data) > 8_000 or b"&" in data:  # an alias may stand for a million values
        return None
    try:
        return json.loads(data) if data[:1] in (b"{", b"[") else yaml.safe_load(data)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def _graft(tree: Any, chance: random.Random) -> None:
    """One value replaced (by an odd value or another one of the tree), removed, doubled, or put under another name."""
    holders = list(_holders(tree)) or [(tree, None)]
    holder, key = chance.choice(holders)
    other, other_key = chance.choice(holders)
    if key not in (holder if isinstance(holder, dict) else range(len(holder))):
        return
    what = chance.randrange(5)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.extend(deepcopy(holder[key]) for _ in range(chance.choice((1, 2, 50))))
    elif what == 2 and isinstance(holder, dict):
        holder[str(chance.choice((other_key, *VALUES)))] = holder.pop(key)
    else:
        holder[key] = deepcopy(chance.choice(VALUES) if what == 3 else other[other_key])


def _holders(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value in a tree: what holds it, and its key there."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _holders(value)


def _span(data: bytes, chance: random.Random, most: int) -> tuple[int, int]:
    at = chance.randrange(len(data) + 1)
    return at, min(len(data), at + chance.randint(1, most))


def _cut(data: bytes, chance: random.Random) -> bytes:
    a, b = _span(data, chance, chance.choice((1, 1, 8, 200)))
    return data[:a] + data[b:]


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data


def _sign(data: bytes, chance: random.Random) -> bytes:
    a, b = _span(data, chance, 1)
    return data[:a] + chance.choice(SIGNS) * chance.choice((1, 1, 1, 3, 500)) + data[chance.choice((a, b)) :]


def _number(data: bytes, chance: random.Random) -> bytes:
    return _replaced(data, NUMBER, chance, chance.choice(EXTREMES))


def _word(data: bytes, chance: random.Random) -> bytes:
    words = WORD.findall(data[:20_000])
    return _replaced(data, WORD, chance, chance.choice(words)) if words else data


def _replaced(data: bytes, what: re.Pattern[bytes], chance: random.Random, by: bytes) -> bytes:
    found = what.search(data, chance.randrange(len(data) + 1))
    return data if found is None else data[: found.start()] + by + data[found.end() :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    a, b = _span(data, chance, chance.choice((4, 60, 400)))
    return data[:b] + data[a:b] * chance.choice((1, 1, 2, 40)) + data[b:]


def _swap(data: bytes, chance: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_span(data, chance, 30), _span(data, chance, 30)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def trial(path: Path) -> str | None:
    """Read a file: None for a document, else the line of the refusal. Any other error is raised: it is a finding."""
    try:
        formats.read(path)
    except RotopaintError as error:
        return str(error)
    return None


def damaged(files: Sequence[Path], folder: Path, seed: int) -> Iterator[Path]:
    """Damaged copies of the files, without end, written to `folder`."""
    chance = random.Random(seed)
    texts = {path: path.read_bytes() for path in files}
    while True:
        source = chance.choice(list(texts))
        suffix = formats.format_of(source).suffixes[0] if source.name.startswith("seed") else source.suffix
        path = folder / f"damaged{suffix}"
        path.write_bytes(mutated(texts[source], chance))
        yield path


def main(arguments: Sequence[str] | None = None) -> int:
    """The long run: prints refusals, and everything that was neither read nor refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    folder = Path(tempfile.mkdtemp(prefix="mutations."))
    count: Counter[str] = Counter()
    end = time.monotonic() + given.seconds
    for path in damaged(given.files or seeds(folder), folder, given.seed):
        if time.monotonic() > end:
            break
        count[_outcome(path, folder, count) + " " + path.suffix] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print({"outcomes": dict(sorted(count.items())), "peak_MB": peak, "kept": str(folder)})
    return int(any(name.startswith(("crash", "slow", "lines")) for name in count))


def _outcome(path: Path, folder: Path, count: Counter[str]) -> str:
    begin = time.process_time()
    try:
        reported = trial(path)
        outcome = "read" if reported is None else "refused"
        if reported is not None and ("\n" in reported or len(reported) > 600):
            outcome, detail = "lines", reported[:200]
    except Exception as error:
        outcome, detail = "crash", f"{type(error).__name__}: {error}"[:200]
    if time.process_time() - begin > SLOW_S:
        outcome, detail = "slow", f"{time.process_time() - begin:.1f} s"
    if outcome in ("crash", "slow", "lines"):
        kept = folder / f"{outcome}.{sum(count.values())}{path.suffix}"
        kept.write_bytes(path.read_bytes())
        print(outcome, kept, detail, flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
