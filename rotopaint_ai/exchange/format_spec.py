"""The interface of a shape format to the rest of the product, and its implementation for formats of one text file.

Standard library only: numpy is imported when a file is written and checked, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult, text_of
from rotopaint_ai.exchange.plain_shapes import Held
from rotopaint_ai.files import write_text
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import RotoDocument

if TYPE_CHECKING:
    from rotopaint_ai.exchange.round_trip import Proof

ForeignNames = Callable[[RotoDocument], Mapping[str, str]]
FindLosses = Callable[[RotoDocument], list[Loss]]
DocumentChange = Callable[[RotoDocument], RotoDocument]
Read = Callable[[Path, int | None, int | None], tuple[RotoDocument, tuple[str, ...]]]
ReadStretched = Callable[[Path, int | None, int | None, float], tuple[RotoDocument, tuple[str, ...]]]
ReadNodes = Callable[[Path, int | None, int | None, str | None, bool], tuple[RotoDocument, tuple[str, ...]]]
Write = Callable[[Path, RotoDocument], "WrittenFile"]
Prove = Callable[[Path, RotoDocument], "Proof"]
Tell = Callable[[int, int], None]  # number of finished frames, number of all frames
WriteFrames = Callable[[Path, RotoDocument, Tell], "WrittenFile"]

LIMIT_PX = 0.02  # goal G8


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written and read back: the largest error in pixels, and the losses of the file.

    proof: set if the shapes were also drawn from the file; None if only control points were compared.
    """

    error_px: float
    losses: tuple[str, ...]
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """A shape format: its suffixes (lower case), its reader and writer, and notes for a person.

    `read` returns a document and its losses. `write` writes a file and reads it back; `formats.write` then moves it
    into place. None means that this direction does not exist. `loses` are the features that no file of the format
    keeps. `limit_px` is the allowed distance of curves from their source. `names` gives the shapes' names in a file
    (None: as in the document). `formats.proof_of` uses these, or calls `prove` where the format has one.
    `losses` lists the losses of a given document; `states_aspect` and `states_fps` say whether files state these.
    """

    name: str
    suffixes: tuple[str, ...]
    about: str
    read: Read | None
    write: Write | None
    loses: frozenset[Feature] = frozenset()
    limit_px: float = LIMIT_PX
    names: ForeignNames | None = None
    prove: Prove | None = None
    losses: FindLosses | None = None
    states_aspect: bool = True
    states_fps: bool = True
    pattern: Callable[[Path], Path] | None = None  # pattern of the written files, where there is one per frame
    write_frames: WriteFrames | None = None  # as `write`, for slow formats that report their frames
    counts_from_first: bool = False  # frame 0 of a file is the shot's first
    # Features of version 2 that the format can hold; the others are reduced before writing.
    holds: frozenset[Held] = frozenset()
    is_relative: bool = False  # coordinates are shares of the plate's size
    read_nodes: ReadNodes | None = None  # for formats with several nodes: size, name of the node, whether to override
    # For formats whose coordinates include the pixel aspect without stating it.
    read_stretched: ReadStretched | None = None


class TextForm(Protocol):
    """A module whose format is one text file."""

    def dumps(self, document: RotoDocument) -> str:
        """The document as text."""

    def loads(self, text: str, *, width: int | None, height: int | None, where: str) -> ReadResult:
        """The document in a text."""

    def losses_of(self, document: RotoDocument) -> list[Loss]:
        """The parts of a document that a file cannot hold."""


def make_text_format(
    module: TextForm,
    name: str,
    suffixes: tuple[str, ...],
    about: str,
    *,
    names: ForeignNames | None = None,
    as_written: DocumentChange | None = None,
    settled: frozenset[Feature] = frozenset(),
    counts_from_first: bool = False,
    read_only: tuple[str, ...] = (),
    states_aspect: bool = True,
    states_fps: bool = True,
    is_relative: bool = False,
    holds: frozenset[Held] = frozenset(),
    note: str = "",
    stretched: Callable[..., ReadResult] | None = None,
) -> FormatSpec:
    """The row of a text format.

    `as_written` reduces a document to what the file can hold; None where it can hold all. `settled` are the losses of
    that reduction; everything else must read back unchanged. `counts_from_first`: frames count from the shot's first.
    `read_only`: further suffixes that are read and never written. `stretched`: the module's `loads` if it takes
    `pixel_aspect`. `note` is reported whenever a file is written.
    """

    def read(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
        found = module.loads(text_of(path), width=width, height=height, where=path.name)
        return found.document, found.losses

    def prove_text(text: str, meant: RotoDocument, where: str) -> Proof:
        from rotopaint_ai.exchange import lossiness
        from rotopaint_ai.exchange.round_trip import compare

        lost = lossiness.features(module.losses_of(meant)) - settled
        reader = partial(stretched, pixel_aspect=meant.pixel_aspect) if stretched else module.loads
        found = reader(text, width=meant.width, height=meant.height, where=where).document
        if counts_from_first:
            found = edit.shift_frames(found, meant.first_frame)
        wanted = as_written(meant) if as_written else meant
        whole = meant if as_written else None
        return compare(wanted, found, loses=lost, names=names(wanted) if names else None, whole=whole)

    def write(path: Path, meant: RotoDocument) -> WrittenFile:
        from rotopaint_ai.exchange import lossiness

        write_text(path, module.dumps(meant))
        proof = prove_text(text_of(path), meant, path.name).require(path.name)
        losses = (*([note] if note else []), *lossiness.texts(module.losses_of(meant)))
        return WrittenFile(proof.max_distance_px, losses, proof)

    def read_stretched(
        path: Path, width: int | None, height: int | None, aspect: float
    ) -> tuple[RotoDocument, tuple[str, ...]]:
        assert stretched is not None
        found = stretched(text_of(path), width=width, height=height, pixel_aspect=aspect, where=path.name)
        return found.document, found.losses

    return FormatSpec(
        name,
        (*suffixes, *read_only),
        about,
        read,
        write,
        names=names,
        prove=lambda path, meant: prove_text(text_of(path), meant, path.name),
        losses=module.losses_of,
        states_aspect=states_aspect,
        states_fps=states_fps,
        counts_from_first=counts_from_first,
        is_relative=is_relative,
        holds=holds,
        read_stretched=read_stretched if stretched else None,
    )
