"""From data sets to what an artist opens.

`train` makes a whole pack: `prepare` reads and starts, and knows how long the end will take; the Trainer trains,
`select` chooses calibration, prior, guards and seams on held-out samples, and the room `evaluation` measures what was
written. `network` trains one more network and puts its file into a pack that is there. `shot` teaches a pack the
corrections of a project (`lesson`).
"""
