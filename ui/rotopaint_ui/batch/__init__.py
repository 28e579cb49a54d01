"""Many shots, one after the other: the same runs as on the command line, in a window."""
