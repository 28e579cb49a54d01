"""The networks, one folder each, and what is fitted in closed form.

`landmarks`, `detection`, `segmentation`, `seam` and `fill` are networks.

A network's folder holds its `net`, its `losses` (or the loss in its task), its `figures` on held-out data, and its
`task`: config, batches, loss, metrics and export, as `trainer.task` wants them. `backbone` has the blocks that several
share and the registered backbones, `pretrained` starts a network from a pack's weights. `shape_fit` and `prior/` are no
networks: shapes from landmarks, and what a face can do, by least squares.
"""
