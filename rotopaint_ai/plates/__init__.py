"""Plates: sequences, stills and movies in, clean plates and mattes out.

- `plate` is the door: a lazily read plate and its frames. `sequence` finds files by name, `kinds` by content.
- Readers: `exr` over `exr_header` and `exr_chunks`; `film` (DPX, Cineon); `stills` over `oiio`; `movie`. Each hands
  over the values of `picture`. `plate_window` keeps a part of a frame in memory.
- Writers: `clean_writer` replaces only changed pixels; `matte_layers` over `exr_writer`; `png`; `deflate` packs both.
- `colour` says what codes mean, and converts back.
"""

from rotopaint_ai.plates.clean_writer import clean_suffix, write_clean
from rotopaint_ai.plates.matte_layers import write_layers
from rotopaint_ai.plates.plate import Frame, Plate, open_plate

__all__ = ["Frame", "Plate", "clean_suffix", "open_plate", "write_clean", "write_layers"]
