"""Shapes: the roto document, its edits, its mattes, and shapes from landmarks.

- The document: `roto` (frozen values), `layers` (groups), `between` (interpolation), `samples` (a shape at many
  frames), `merge` (results of two runs), `manual_keys` (people's edits in a model's new result).
- Edits, each of which returns a new document: `edit` (shapes and keys), `edit_points`, `edit_tangents`,
  `edit_transform`, `edit_feather`, `edit_frames` (one edit on many frames), `edit_keys` (keys moved in time),
  `edit_layers`. `group_moves` and `landmarks_follow` move predictions and landmarks along.
- Curves: `bezier` (arithmetic), `fit` (through samples), `alignment` (samples side by side), `bake` (eases and layers
  as linear keys), `reduce` (fewer keys, by `knots`); `revectorise/` (artists' curves onto the same control points).
- Mattes: `rasterise`, with `feather` and `feather_line`; `matte_metrics` compares two.
- From landmarks: `predict` (the pack's model), `landmark_regression` (its closed form).
- Corrections: `refit` propagates them, with `facespace` and `pose_kernel`; `propagation_range` proposes how far;
  `pose_distance` compares poses.
- Heads: `rigid_head`, `head_bundle` and `head_descent` solve a shot's head, with `head_poses`, `head_cameras` and
  `head_marks`; `head_structure` and `deformable_head` are models of a character, fitted to keyed frames.

The document and its edits need only the standard library, so that a host's own Python can load them.
"""
