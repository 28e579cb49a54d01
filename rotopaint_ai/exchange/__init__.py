"""Exchange: shapes in and out of other programs' files, and the self-check of every export.

The table of formats:
- `formats` reads, writes, converts and checks by suffix; `format_spec` is one row of its table.
- `features` names what a format may keep; `lossiness` reports what a format loses.
- `round_trip` compares a written file, read back, with its source; `diagnosis` names the mistake behind a difference.
- `parsing` and `limits` are what every reader shares: text, numbers, sizes and their bounds.

Our own document: `document` (`.roto.json`).

Nuke: `nuke` is the door. Reading goes `nuke_script` (commands, nodes) -> `nuke_words` (nested words) -> `nuke_curves`
(the grammar) and `nuke_views` (stereo) -> `nuke_tree` (its values) -> `nuke_motion`, `nuke_keys` -> `nuke_reader`.
Writing goes `nuke_writer` -> `nuke_text`.

Other programs: `aftereffects`, `blender` and `blend_files` (scripts that run there: `hosts/`), `fusion`,
`fusion_reader` and `lua`, `silhouette`, `ssf`, `svg`; `coco` and `labelme` over `polygons`; `keypoints` of single
pictures and the published `puppet_folder`, which only `mine` reads; `cryptomatte` and its
row `cryptomatte_format`; `json_files` for `.json` of any of these.

Geometry that formats share: `stroke_outlines` (open to closed), `feather_edges` (feather as a second curve),
`linear_keys` (holds and visibility as keys).

All but `round_trip`, `diagnosis`, `cryptomatte` and `puppet_folder` are standard library only.
"""
