"""How good a pack is on finished roto: predictions, figures, mattes, motion, expected errors, the gate, the page.

Nothing here needs torch: packs are run as `rotopaint run` runs them, so artists' machines and farms can measure.
"""
