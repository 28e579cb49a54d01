"""The puppet stage: a procedural renderer of stop-motion puppets with a two-piece face, with exact ground truth.

- Characters: `puppet` defines them and their poses, `anatomy` their landmarks, shapes and sheet. `face` is the surface
  of the face and its curves; `props` adds eyes, hair, hats, ears and clothes; `rigs` hold the puppet,
  `front_objects` stand before it.
- The seam: `puppet_seam` is its course on the face, `looks` carves it.
- Pictures: `mesh` makes triangles, `raster` and `view` find the surface at each pixel, `materials` and `face_paint`
  give its material, `studio` sets light and lens, `shading` lights, `scene` renders one frame.
- Shots and data: `puppet_shot` renders shots, `shot_folder` reads them back, `face_dataset` and `crowd_plates` write
  training data, in the processes of `workers`;
  `orders` keep what a folder's pictures were made with.
- Drawn into finished pictures: `burnt_seams`, `occluders`, `distractors`.

It needs numba (the [train] extra) and downloads nothing: every picture is made from a seed.
"""
