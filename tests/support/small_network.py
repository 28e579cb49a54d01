"""The landmark network of tests that train: as shallow as the recipe allows."""

SMALL_NETWORK = (
    "input_size=64",
    "widths=[8, 8, 16, 16, 16]",
    "depths=[1, 1, 1, 1]",
    "neck=16",
    "fine=8",
)
