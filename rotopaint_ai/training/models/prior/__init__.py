"""What a character's face can do: a deformable 3D model of its landmarks, and the prior that packs ship."""
