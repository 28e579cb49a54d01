"""The networks that refine seam positions: `task` has the one of strips, their training and their tuning to one
character, `features` the one whose features strips have, `examples` their samples."""
