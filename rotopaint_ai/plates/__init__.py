"""Plates: sequences, stills and movies in, clean plates and mattes out."""

from rotopaint_ai.plates.clean_writer import clean_suffix, write_clean
from rotopaint_ai.plates.matte_layers import write_layers
from rotopaint_ai.plates.plate import Frame, Plate, open_plate

__all__ = ["Frame", "Plate", "clean_suffix", "open_plate", "write_clean", "write_layers"]
