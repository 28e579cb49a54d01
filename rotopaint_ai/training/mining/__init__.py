"""Ground truth from finished roto: the same control points and landmarks in every frame, shot and artist's hand.

How curves come to have the same control points everywhere is `shapes/revectorise`. Each file imports only from those
above it:

    options             the options of `mine`; the kinds of label issues
    takes               the data of sources by frame: shapes, landmarks, provenance, names
    faces               which names mirror each other; the frontal face
    sources             reads a source of any kind into takes: roto, projects, COCO, the published puppets
    join                takes of the same plates put together, frame by frame
    symmetric_groups    shapes with their mirror images, aligned
    plans               control points of each shape and the fit in every frame
    sheet_proposal      a sheet where none is given, or one that is with the frames that it comes from
    vectorise           all of the above for all frames; no picture is looked at
    samples             pictures and lines of the data set, and the folder that they are written into
    outliers            a Gaussian model of the face finds points that do not fit
    label_checks        frames with suspicious labels
    mine                the whole of `rotopaint mine`; residuals, issues with pictures, names that differ
"""
