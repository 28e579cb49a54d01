"""What a project says of its shot, and the head that its corrections give, for the character's next shots."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rotopaint_ai.errors import UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import HEAD, Pack, load_card, write_card
from rotopaint_ai.inference.pack_folder import copy_pack, replacing_folder
from rotopaint_ai.inference.signing import SIGNATURE
from rotopaint_ai.pipeline.executor import Progress
from rotopaint_ai.pipeline.known_head import KnownHead
from rotopaint_ai.pipeline.teach import head_of_shot, read_shot
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.project import corrections
from rotopaint_ai.shapes.refit import Errors
from rotopaint_ai.shapes.roto import RotoDocument


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedProject:
    """A project's shot: the present document, the models' predictions with their expected errors, the corrected frames,
    and the plate."""

    predicted: RotoDocument
    document: RotoDocument
    errors: Errors
    frames: frozenset[int]
    plate: Plate


def read_corrected_project(path: Path) -> CorrectedProject:
    """Read a project. Raises: UsageError, ProjectError, DocumentError, PlateError."""
    found = corrections(path)
    if found.predicted is None or found.plate is None:
        raise UsageError(f"{path.name}: no models were run on it; run them and correct a few frames first")
    plate = open_plate(found.plate, colourspace=found.colourspace)
    frames = frozenset(each.frame for each in found.frames) & found.predicted.landmarks.keys.keys()
    return CorrectedProject(found.predicted, found.document, found.errors(), frames, plate)


def has_trained_head(pack: Pack) -> bool:
    """Whether a pack has a head from its training, of more poses than one shot's corrections."""
    return (pack.folder / HEAD).is_file() and "head" not in pack.card


def head_of_project(shot: CorrectedProject, pack: Pack, progress: Progress) -> KnownHead:
    """The head of a project's shot as a pack sees it. Raises: UsageError as `head_of_shot`, PlateError."""
    with closing(open_models(pack, device="cpu", threads=1)) as models:
        reading = read_shot(shot.predicted, shot.plate, models, progress=progress)
        return head_of_shot(reading, shot.predicted, shot.document, shot.errors)


def copy_pack_with_head(pack: Pack, head: KnownHead, to: Path, *, project: Path, frames: frozenset[int]) -> None:
    """Copy a pack and add a head, replacing an older pack; its card names the project and its corrected frames.

    A signature is left behind, because it does not hold for the copy.
    """
    card = {name: value for name, value in load_card(pack.folder).items() if name != "default"}
    facts = {"project": project.name, "frames": summarise(sorted(frames))}
    with replacing_folder(to) as made:
        copy_pack(pack.folder, made, without=frozenset((SIGNATURE,)))
        head.write(made / HEAD)
        write_card(made, {**card, "name": to.name, "head": facts})
