"""Data sets, and samples made ready for a batch.

`dataset` reads and checks one on disk (pictures from files or `shards/`, decoded once or streamed), `dataset_checks`
refuses those that cannot be trained on, `holdout` says what is held out, `fingerprint` tells data sets apart.
`augment` cuts a random crop and makes it harder, with `elastic` and `pose_augment` (by the `rigid_structure` of a head)
for its geometry. `seam_widths` gives seams their widths, `prefetch` makes batches in a thread of its own.
"""
