"""The networks, one folder each, and what is fitted in closed form.

`landmarks`, `detection`, `segmentation`, `seam` and `fill` are networks. A network's folder holds its `task`: config,
batches, loss, metrics and export, as `trainer.task` wants them; and, where they are long, its `net` and what its
samples are made of. `backbone` has the blocks that several share, the registered backbones, and starts a network from a
pack's weights. `shape_fit` and `face_prior` are no networks: shapes from landmarks, and what a face can do, in closed
form.
"""
