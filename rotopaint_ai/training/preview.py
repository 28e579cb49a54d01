"""Contact sheets: crops with the points found (green) and the truth (red), for people who watch a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.training.augment import straight_batch
from rotopaint_ai.training.dataset import Memory, write_picture
from rotopaint_ai.training.evaluation.drawing import contact_sheet, draw_points
from rotopaint_ai.training.nets import LandmarkNet
from rotopaint_ai.training.recipe import Recipe


@torch.no_grad()
def write_preview(path: Path, net: LandmarkNet, memory: Memory, rows: npt.NDArray[np.intp], recipe: Recipe) -> None:
    """Draw some held-out samples, what the network finds on them and the truth."""
    net.eval()
    batch = straight_batch(memory, rows.tolist(), recipe.input_size, recipe.crop_margin)
    found = net(torch.from_numpy(batch.crops).permute(0, 3, 1, 2).float() / 255).points.numpy()
    tiles = [draw_points(crop, point, true) for crop, point, true in zip(batch.crops, found, batch.landmarks)]
    write_picture(path, contact_sheet(tiles))
