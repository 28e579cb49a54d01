"""Exchange: shapes in and out of other programs' files, and the self-check of every export.

The table of formats:
- `formats` reads, writes, converts and checks by suffix; `format_spec` is one row of its table.
- `features` names what a format may keep; `lossiness` reports what a format loses.
- `round_trip` compares a written file, read back, with its source; `diagnosis` names the mistake behind a difference.
- `parsing` and `limits` are shared by all readers: text, numbers, sizes and their bounds.

Our own document: `document` (`.roto.json`).

Nuke: start with `nuke`. Reading goes `nuke_script` (commands, nodes) -> `nuke_words` (nested words) -> `nuke_curves`
(the grammar) and `nuke_views` (stereo) -> `nuke_tree` (its values) -> `nuke_motion`, `nuke_keys` -> `nuke_reader`.
Writing goes `nuke_writer` -> `nuke_text`; `nuke_rebuild` writes into the nodes that `nuke_metadata` has kept. Both
directions use `nuke_attributes`, `nuke_layers` and `nuke_size`.

Other programs: `aftereffects`, `blender` and `blend_files` (the scripts that run in those programs are in `hosts/`,
`mask_scripts` is their common part), `fusion`, `fusion_reader` and `lua`, `lottie`, `silhouette`, `ssf`, `svg`;
`coco` and `labelme`, which use `polygons`; `cryptomatte` and its row `cryptomatte_format`; `json_files`, which reads a
`.json` of any of these. Only `mine` uses `keypoints` (of single pictures) and `puppet_folder` (a published data set).

Geometry that formats share: `stroke_outlines` (open to closed), `feather_edges` (feather as a second curve),
`linear_keys` (holds and visibility as keys), `time_eases` (eases as cubics in time), `plain_shapes` (a document reduced
to what a format can hold).

All modules need only the standard library, except `round_trip`, `diagnosis`, `cryptomatte` and `puppet_folder`.
"""
