"""How good a pack is on finished roto: predictions, figures, mattes, jitter, expected errors, the gate.

Nothing here needs torch: packs are run as `rotopaint run` runs them, so artists' machines and farms can measure.
Each file imports only from those above it:

    predictions         a pack's predictions for a data set's samples, beside the truth
    error_statistics    spreads, rank correlations, jitter, whether expected errors can be believed
    gate                a new pack must not be worse than an old one, on frames that neither has learned from
    contact_sheets      the worst samples side by side
    evaluate            all figures of a pack on a data set, mattes among them
"""
