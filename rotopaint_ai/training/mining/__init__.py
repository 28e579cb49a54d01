"""Ground truth from finished roto: the same control points and landmarks in every frame and shot, whoever drew it.

`shapes/revectorise` gives curves the same control points. Each file imports only from those above it:

    options             the options of `mine`; the kinds of label issues
    takes               the data of sources by frame: shapes, landmarks, provenance, names
    sources             reads a source of any kind into takes: roto, projects, COCO, the published puppets
    join                merges takes of the same plates, frame by frame
    symmetric_groups    shapes together with their mirror images, aligned
    plans               the control points of each shape, and their fit in every frame
    sheet_proposal      proposes a sheet, or adapts a given one to the takes
    vectorise           runs all of the above on all frames; opens no picture
    mined_samples       the pictures and lines of the data set, written to its folder
    outliers            points that a Gaussian model of the face finds implausible
    label_checks        frames with suspicious labels
    mine                the whole of `rotopaint mine`, with tables of residuals and issues
"""
