"""Data sets, and samples ready for a batch.

`dataset` reads and checks a data set on disk (pictures in files or in `shards/`). `memory` decodes its pictures once or
streams them. `dataset_checks` makes the validation split and refuses unusable data sets. `augment` cuts a random crop
and degrades it; `pose_augment` adds elastic warps and head turns. `seam_widths` measures how wide seams are.
"""
