"""Data sets, and samples made ready for a batch.

`dataset` reads and checks one on disk (pictures from files or `shards/`), `memory` decodes its pictures once or streams
them. `dataset_checks` says what is held out, and refuses what cannot be trained on. `augment` cuts a random crop and
makes it harder, with `pose_augment` (smooth bends, other views of a head by its depth) for its geometry.
`seam_widths` gives seams their widths.
"""
