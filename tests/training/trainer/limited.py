"""One training step on a batch that a limited memory does not hold; prints how activations were kept at last."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import torch

from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.cores import make_timed
from rotopaint_ai.training.trainer.trainer import Trainer

HEADROOM = 1350 << 20  # above what the process has before; keeping everything takes about 1,680 MB, checkpoints 1,180

faces, folder = sys.argv[1:]
torch.set_num_threads(1)
recipe = override(
    PackConfig(),
    ["batch=96", "input_size=256", "small_size=256", "bf16=false", "minutes=null", "steps=1", "activations=auto"],
)
memory = load_pictures(read_dataset(Path(faces)), side_px=300, margin=1.3)
Path(folder).mkdir()
data = LandmarkData(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
run = Trainer(recipe, LandmarkTask(recipe, build_net(recipe, 4), data), Path(folder))
batch = make_timed(run.task, run.moment(0))
used = int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmSize" in line).split()[1])
resource.setrlimit(resource.RLIMIT_AS, ((used << 10) + HEADROOM, resource.RLIM_INFINITY))
run.step(batch, 0.0)
print(run.activations.current)
