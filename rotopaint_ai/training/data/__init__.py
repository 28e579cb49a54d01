"""Data sets, and samples made ready for a batch.

`dataset` reads and checks one on disk (pictures from files or `shards/`, decoded once or streamed), `dataset_checks`
refuses those that cannot be trained on, `holdout` says what is held out and tells data sets apart.
`augment` cuts a random crop and makes it harder, with `pose_augment` (smooth bends, and other views by the
`rigid_structure` of a head) for its geometry. `seam_widths` gives seams their widths.
"""
