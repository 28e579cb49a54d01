"""Curves that artists drew with any points, as Bezier splines with the same control points in every frame.

Each file imports only from those above it:

    raw_curves          raw curves as equal runs of points; the dynamic program that slides them onto a mean
    mean_face           where the face is in each frame
    point_tracks        which frames' points follow the same places, and frames whose points were shifted round
    correspondence      the same place on a shape in every frame
    spline_fit          Bezier splines with given control points fitted to raw curves
    control_points      where control points go on a shape
"""
