"""Seams: find them, measure their width, paint them away, and measure how visible they remain.

Paint:

- `cleanplate`: the entry point; from a crop, a matte and curves to a clean crop. `rotopaint_ai.fills` lists the
  methods.
- `bank_fill`: straightens the crop along its seams, repaints it there, and maps the result back. `ribbon` straightens.
- `learned_fill`: the network that repaints each sample of the ribbon. `banks` interpolates across a matte.
- `harmonic_fill`: fills matte without a curve from its rim; `rig` fills a matte of any size, to remove a rig.
- `paint_settings`: the user's method, grain, strength and hold-out of each seam.
- `grain`: copies the plate's grain into the paint.
- `strokes`, `touchup`: clone strokes by hand, and their composite over the paint.

Position and size: `placement` moves a predicted seam onto the visible one (`path` finds the smooth path),
`groove_width` measures groove and bevels (`width_table`: its weights), `keyed_width` a width over many
keyed frames.
`planar` carries a hand-drawn shape through the shot, by the planes that `plane_fit` finds. `matte`
gives mattes and middle lines of shapes, `skeleton` middle lines of external mattes. `front` finds what stands in front
of the face.

Check: `visibility` measures how much a seam shows.
"""
