"""Plates: sequences, stills and movies in, clean plates and mattes out.

- Start with `plate`: a lazily read plate and its frames. `sequence` finds the files of a plate by name; `kinds` tells
  by content which reader a file needs.
- Readers: `exr` (uses `exr_header` and `exr_chunks`); `film` (DPX, Cineon); `stills` (uses `oiio`); `movie`. Each
  returns the types of `picture`. `plate_window` keeps only a part of a frame in memory.
- Writers: `clean_writer` replaces only changed pixels; `matte_layers` (uses `exr_writer`); `png`. `deflate` compresses
  for EXR and PNG. `coded_pictures` encodes 8-bit pictures and clips.
- `colour` converts a file's codes to scene-linear values and back.
"""

from rotopaint_ai.plates.clean_writer import clean_suffix, write_clean
from rotopaint_ai.plates.matte_layers import write_layers
from rotopaint_ai.plates.plate import Frame, Plate, open_plate

__all__ = ["Frame", "Plate", "clean_suffix", "open_plate", "write_clean", "write_layers"]
