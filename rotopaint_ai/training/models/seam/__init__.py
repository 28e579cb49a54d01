"""The network that refines seam positions: `task` has the net, its training and its tuning to one
character, `examples` its samples."""
