"""The puppet stage: a procedural renderer of stop-motion puppets with a two-piece face, with exact ground truth.

`puppet` defines characters and poses. `face` is the surface of the face and its curves; `props` adds eyes, hair, hats,
ears and clothes. `raster` and `view` find the surface at each pixel, `materials` gives its material, `shading` lights
it, `scene` renders one frame. `puppet_shot` renders shots, `shot_folder` reads them back, `face_dataset` writes
training data. `burnt_seams` draws synthetic seams into pictures without seams.

It needs numba (the [train] extra) and downloads nothing: every picture is made from a seed.
"""
