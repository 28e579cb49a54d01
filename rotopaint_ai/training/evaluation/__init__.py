"""How good a pack is on finished roto: predictions, errors, mattes, jitter, expected errors, the gate.

Nothing here needs torch: packs run as in `rotopaint run`, so artists' machines and farms can evaluate too.
Each file imports only from those above it:

    predictions         a pack's predictions for a data set's samples, with the ground truth
    error_statistics    percentiles, rank correlations, jitter, calibration of expected errors
    gate                a new pack must not be worse than an old one, on frames that neither was trained on
    contact_sheets      the worst samples as one picture
    evaluate            all metrics of a pack on a data set, mattes included
"""
