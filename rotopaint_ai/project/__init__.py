"""The project file of a shot: one SQLite file in which every edit is saved at once.

- `state` is the shot as one value, `face_groups` its faces, `names` the names that artists give to shapes.
- `database` is the open project; `schema` has its tables, `codecs` the bytes of values, `check` the checks of foreign
  content, `owner` who may write, `disk` whether the disk is local, `restore` the newest intact backup.
- `run_record` has a run's figures per frame, `merge_run` merges a run's shapes in, `fingerprints` tells which clean
  frames are up to date, `plate_files` recognises a moved plate.
- `corrected_frames` gives a project's corrections for training.
"""

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
