"""The project file of a shot: one SQLite file in which every edit is saved at once."""

from rotopaint_ai.project.corrected_frames import CorrectedFrame, Corrections, corrections
from rotopaint_ai.project.database import LoadedProject, Project, SavedStep
from rotopaint_ai.project.schema import SUFFIX
from rotopaint_ai.project.state import CropBox, Mark, SeamSettings, Spread, State

__all__ = [
    "SUFFIX",
    "CorrectedFrame",
    "Corrections",
    "CropBox",
    "LoadedProject",
    "Mark",
    "Project",
    "SavedStep",
    "SeamSettings",
    "Spread",
    "State",
    "corrections",
]
