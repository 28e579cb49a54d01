"""The networks, one folder each, and the models that are fitted in closed form.

`landmarks`, `detection`, `segmentation`, `seam` and `fill` are networks. Each folder has a `task` (config, batches,
loss, metrics and export; see `trainer.task`) and, where these are long, a `net` and a file for its samples.
`backbone` has the registered backbones, the blocks that several networks share, and initialisation from a pack.
`shape_fit` (shapes from landmarks), `face_prior` (a Gaussian prior of landmarks) and `whole_faces` (landmarks that
nobody keyed) are closed-form fits.
"""
