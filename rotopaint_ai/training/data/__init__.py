"""Data sets, and samples made ready for a batch.

`dataset` reads and checks one on disk (pictures from files or `shards/`), `memory` decodes its pictures once or streams
them. `dataset_checks` makes the validation split, and refuses unusable data sets. `augment` cuts a random crop and
degrades it, with `pose_augment` (elastic warps, other views of a head by its depth) for its geometry.
`seam_widths` gives seams their widths.
"""
