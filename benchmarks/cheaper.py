"""A trained pack made cheaper or dearer, to weigh its time against its error.

    python benchmarks/cheaper.py PACK DATASET OUT [--one-reading] [--float32]

PACK is what `rotopaint train DATASET --out PACK` wrote, with its checkpoint in PACK.run. OUT is the same pack with
another landmark model: `rotopaint bench infer --model OUT` times it, `rotopaint run --model OUT` and
`benchmarks/truth.py` tell its error. One reading: crops are not read mirrored as well, prior and calibration are chosen
anew on the held-out samples. Float32: without the model in integers, which processors read with.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import torch

from rotopaint_ai.inference.pack import INT8, LANDMARKS, load_card, write_card
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.net import CropModel
from rotopaint_ai.training.models.landmarks.task import predict_held_out
from rotopaint_ai.training.pack.export import PARITY_PX, add_int8
from rotopaint_ai.training.pack.prepare import Prepared, prepare
from rotopaint_ai.training.pack.select import crop_model, select_models
from rotopaint_ai.training.pack.train import int8_samples
from rotopaint_ai.training.trainer.onnx_export import export_checked


def run_folder(pack: Path) -> Path:
    """Where a pack's training left its checkpoint and recipe."""
    return pack.with_name(pack.name + ".run")


def read_once(pack: Path, ready: Prepared) -> CropModel:
    """The landmark model of a pack's checkpoint that reads crops as they are, not mirrored as well."""
    state = torch.load(run_folder(pack) / "checkpoint.pt", weights_only=True)
    net, held = ready.task.net, ready.task.data.held_out
    net.load_state_dict(state["best_state"])
    found = predict_held_out(net.eval(), held, np.arange(len(held)), ready.config, exact=True)
    chosen = select_models(ready.config, ready.train_data, found, held, None)
    net.load_state_dict(state["ema"])
    return crop_model(net, chosen, ready.data.subset(ready.data.rows_of("train", "val")))


def main() -> int:
    """Write the other pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--one-reading", action="store_true")
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    ready = prepare([options.dataset], load_pack_config(run_folder(options.pack) / "recipe.yaml"), None)
    samples, card = int8_samples(ready), load_card(options.pack)
    shutil.copytree(options.pack, options.out)
    if options.one_reading:
        model, names = read_once(options.pack, ready), ("crop", ("landmarks", "expected_error", "visible"))
        limits = {"landmarks": PARITY_PX}
        export_checked(model, options.out / LANDMARKS, names, samples.crops[:8], limits=limits, unit=" px")
        card["reads_mirrored"] = False
    card["parity"]["int8_error_ratio"] = add_int8(options.out, samples)
    if options.float32:
        (options.out / INT8).unlink(missing_ok=True)
    write_card(options.out, card)
    return 0


if __name__ == "__main__":
    sys.exit(main())
