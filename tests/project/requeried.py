"""Projects changed by SQL (values, rows and tables of a good project), which pass a reader's first check of the
file."""

from __future__ import annotations

import json
import random
import sqlite3
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from rotopaint_ai.project import CropBox, State
from rotopaint_ai.project.schema import unseal
from rotopaint_ai.project.state import OtherFace, SeamSettings, Spread
from rotopaint_ai.seams.strokes import Stroke
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import RotoDocument
from tests.exchange import mutations

WHOLE = 2**63
ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    1,
    2**31,
    WHOLE - 1,
    -WHOLE,
    0.5,
    1e308,
    float("inf"),
    "",
    " ",
    "a",
    "5",
    b"",
    b"\0",
)
ODD += ("a\nb", "\x1b[31m", "head", "key", "model.key", "x/key", "sum", "position", "human", "\U0001f3ad")
SCHEMA = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} ADD COLUMN more",
    "ALTER TABLE {table} RENAME TO more",
    "CREATE TABLE more (a)",
    "CREATE VIEW more AS SELECT * FROM {table}",
    "CREATE INDEX more ON {table} (1)",
    "CREATE TRIGGER more AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
    "PRAGMA application_id = 7",
)


def sample_state() -> State:
    """A small state that uses every feature."""
    document = mutations.sample()
    group = Layer("head", {5: LayerPose(1.0, 2.0, 3.0)}, {5: (1.0, 0.0, 2.0, 0.0, 1.0, 3.0, 0.0, 0.0, 1.0)})
    shapes = tuple(replace(shape, layer=group, metadata={"a": 1}) for shape in document.shapes)
    document = replace(document, shapes=shapes, metadata={"host": "x"})
    document = replace(document, landmarks=replace(document.landmarks, hand={5: frozenset({"nose"})}))
    return State(
        document,
        crops={5: CropBox(1, 2, 3, 4)},
        predicted=mutations.sample(),
        marks={5: "accepted"},
        seams={"seam": SeamSettings(2.0, 1.0, (0.1, 0.2), profile=((1.0, 0.5), (0.5, 1.0)))},
        spreads=(Spread(5, 5, 6, frozenset({"seam"})),),
        strokes={5: (Stroke(((1.0, 2.0), (3.0, 4.0)), 1, 2, source=6),)},
        names={"seam": "Naht"},
        notes={5: "look"},
        face="Anna",
        faces={"Bert": OtherFace("puppet", {"a": "Bert_a"}, {5: CropBox(1, 2, 3, 4)}, RotoDocument(100, 80, 5, 9))},
    )


def requeried(data: bytes, chance: random.Random) -> bytes:
    """A project with one to three statements run on it; other files are changed as by `mutated`."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.deserialize(data)
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
            for _ in range(chance.choice((1, 1, 2, 3)) if tables else 0):
                with suppress(sqlite3.IntegrityError, sqlite3.OperationalError, UnicodeDecodeError, IndexError):
                    chance.choice((_set, _set, _value, _value, _value, _row, _schema))(db, tables, chance)
            if chance.random() < 0.9:
                db.execute("DELETE FROM note WHERE name = 'sum'")
            db.commit()
            return db.serialize()
        except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError, MemoryError):
            return mutations.mutated(data, chance)


def _some_row(db: sqlite3.Connection, table: str, chance: random.Random) -> tuple[list[str], tuple[Any, ...]]:
    found = db.execute(f"SELECT * FROM {table} LIMIT 200")
    names = [each[0] for each in found.description]
    rows = found.fetchall()
    return names, chance.choice(rows) if rows else (None,) * len(names)


def _where(names: list[str]) -> str:
    return " AND ".join(f"{name} IS ?" for name in names)


def _set(db: sqlite3.Connection, tables: list[str], chance: random.Random) -> None:
    """Set a cell to an odd value, another value of the table, or text that is not text."""
    table = chance.choice(tables)
    names, row = _some_row(db, table, chance)
    at = chance.randrange(len(names))
    other = _some_row(db, table, chance)[1][chance.randrange(len(names))]
    new = chance.choice((*ODD, other, other))
    put = "CAST(x'eda080' AS TEXT)" if chance.random() < 0.03 else "?"
    db.execute(
        f"UPDATE OR IGNORE {table} SET {names[at]} = {put} WHERE {_where(names)}",
        (*([new] if put == "?" else []), *row),
    )


def _value(db: sqlite3.Connection, tables: list[str], chance: random.Random) -> None:
    """Change the content of a value or a note and correct its checksum, or put one value in another's place."""
    if chance.random() < 0.2:
        name, text = chance.choice(db.execute("SELECT name, value FROM note").fetchall())
        text = mutations.reshaped(str(text).encode(), chance).decode(errors="replace")
        db.execute("UPDATE note SET value = ? WHERE name = ?", (text, name))
        return
    number, sealed = chance.choice(db.execute("SELECT id, data FROM value").fetchall())
    sealed = sealed if isinstance(sealed, bytes) else str(sealed).encode()  # a try before may have changed it
    with suppress(ValueError):
        sealed = unseal(sealed)
    if chance.random() < 0.15:
        sealed = json.dumps(chance.choice(mutations.VALUES)).encode()
    elif chance.random() < 0.1:
        db.execute("UPDATE item SET value = ? WHERE value = ?", (chance.randint(1, 40), number))
        return
    else:
        sealed = chance.choice((mutations.reshaped, mutations.reshaped, mutations.mutated))(sealed, chance)
    db.execute("UPDATE value SET data = ? WHERE id = ?", (sealed + zlib.crc32(sealed).to_bytes(4, "little"), number))


def _row(db: sqlite3.Connection, tables: list[str], chance: random.Random) -> None:
    """Delete a row, or repeat it with another first cell."""
    table = chance.choice(tables)
    names, row = _some_row(db, table, chance)
    if chance.random() < 0.5:
        db.execute(f"DELETE FROM {table} WHERE {_where(names)}", row)
    else:
        new = (chance.choice((*ODD, 5, 6, 7)), *row[1:])
        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(names))})", new)


def _schema(db: sqlite3.Connection, tables: list[str], chance: random.Random) -> None:
    if chance.random() < 0.3:
        db.execute(chance.choice(SCHEMA).format(table=chance.choice(tables)))
