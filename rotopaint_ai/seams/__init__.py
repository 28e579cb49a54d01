"""Seams: where they run, how wide they are, how they are painted away, and how much of them still shows.

Paint, from the door inwards:

- `cleanplate`: from a crop, a matte and curves to a clean crop. `rotopaint_ai.fills` is the table of its methods.
- `bank_fill`: the crop straightened along its seams, repainted there, and brought back. `ribbon` is the straightening.
- `relight`: what the fitted tables (`relight_table`, `relight_table_narrow`, read by `layer_text`) make of each sample;
  `learned_fill`: what the network makes of theirs. `banks` joins both sides of a matte, `glint` finds thin bright
  lines.
- `harmonic_fill`: matte that no curve runs through, from its rim.
- `paint_settings`: method, grain and strength of each seam, as people set them.
- `grain`: the plate's grain carried into the paint.
- `strokes`, `touchup`: clone strokes by hand, and what they make of the paint.

Place and size: `placement` moves a predicted seam onto the plate's (`path` is its smooth way), `width` measures how far
its groove and bevels reach (its numbers: `width_table`), `matte` gives mattes and middle lines of shapes, `skeleton`
middle lines of somebody else's mattes.

Check: `visibility` is the meter of what shows.
"""
