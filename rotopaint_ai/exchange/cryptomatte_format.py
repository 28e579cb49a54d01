"""The row of the Cryptomatte format, which writes one file per frame. Standard library only until one is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai.exchange.format_spec import FormatSpec, Tell, WrittenFile
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.plain_shapes import ALL
from rotopaint_ai.shapes.roto import RotoDocument

if TYPE_CHECKING:
    from rotopaint_ai.exchange.round_trip import Proof

_LIMIT = 1e-6  # allowed difference of a matte's value: the files hold 32-bit floats


def _write_cryptomatte(path: Path, meant: RotoDocument, tell: Tell | None = None) -> WrittenFile:
    from rotopaint_ai.exchange import cryptomatte, lossiness

    worst = cryptomatte.write(path, meant, tell) if tell else cryptomatte.write(path, meant)
    proof = _proof_of_mattes(worst, meant).require(path.name)
    return WrittenFile(0.0, lossiness.texts(cryptomatte.losses_of(meant)), proof)


def _prove_cryptomatte(path: Path, meant: RotoDocument) -> Proof:
    """Compare every matte extracted from the written frames with its source."""
    from rotopaint_ai.exchange import cryptomatte

    return _proof_of_mattes(cryptomatte.read_back(cryptomatte.pattern(path), meant), meant)


def _proof_of_mattes(worst: float, meant: RotoDocument) -> Proof:
    from rotopaint_ai.exchange.round_trip import Proof

    faults = (f"a matte differs by {worst:.4f} at a pixel",) if worst > _LIMIT else ()
    frames = meant.last_frame - meant.first_frame + 1
    return Proof(len(meant.shapes), 0, frames * len(meant.shapes), 0.0, worst, faults)


def _cryptomatte_pattern(path: Path) -> Path:
    from rotopaint_ai.exchange import cryptomatte

    return cryptomatte.pattern(path)


def _cryptomatte_losses(document: RotoDocument) -> list[Loss]:
    from rotopaint_ai.exchange import cryptomatte

    return cryptomatte.losses_of(document)


CRYPTOMATTE = FormatSpec(
    "Cryptomatte",
    (".crypto.exr",),
    "mattes of all shapes in one EXR a frame, picked by name",
    None,
    _write_cryptomatte,
    prove=_prove_cryptomatte,
    pattern=_cryptomatte_pattern,
    losses=_cryptomatte_losses,
    holds=ALL,
    write_frames=_write_cryptomatte,
)
