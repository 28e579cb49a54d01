"""Artists' curves with arbitrary points, as Bezier splines with the same control points in every frame.

Each file imports only from those above it:

    raw_curves          raw curves as equal numbers of samples; the dynamic program that aligns them to a mean
    mean_face           the face's pose in each frame
    mirror_partners     which names mirror each other; the frontal face
    point_tracks        frames whose points follow the same features, and frames whose points were shifted
    correspondence      the same feature of a shape in every frame
    spline_fit          Bezier splines with given control points fitted to raw curves
    control_points      positions of control points on a shape
"""
