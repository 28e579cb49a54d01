"""Ground truth from finished roto: the same control points and landmarks in every frame, shot and artist's hand."""
