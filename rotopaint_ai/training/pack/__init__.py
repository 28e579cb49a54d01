"""From data sets to what an artist opens.

`train` makes a whole pack: `prepare` reads and starts, the Trainer trains, `select` chooses prior, guards and seams on
held-out samples with `calibration`, `export` writes the folder, and `evaluation` measures it. `network` trains one more
network and puts its file into a pack that is there.
"""
