"""From data sets to a finished pack.

`train` makes a whole pack. `prepare` reads the data, builds the network and estimates how long the final steps take.
`select_models` chooses calibration, prior, guards and seam options on validation samples; `evaluation` measures the
written pack. `network` trains one more network into an existing pack. `shot` trains a pack on the corrections of a
project (`lesson`).
"""
