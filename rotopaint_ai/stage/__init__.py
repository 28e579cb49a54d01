"""The puppet stage: a procedural renderer of stop-motion puppets with a two-piece face, and their exact truth.

`puppet` says what a character is and how it can pose, `face` is the face's surface and the curves that lie on it,
`props` adds eyes, hair, hats, ears and clothes, `raster` and `view` find what each pixel sees, `materials` says what it
is made of, `shading` lights it, `scene` puts one frame together, `puppet_shot` films shots, `filmed` reads them back,
`face_dataset` writes training data. `burnt_seams` puts seams into pictures that have none.

It needs numba (the [train] extra) and nothing that has to be downloaded: every picture is made from a seed.
"""
