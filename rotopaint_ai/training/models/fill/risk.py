"""Which stretches to give to the learned fill: what it gains and loses on shots that nothing was trained on.

    python -m rotopaint_ai.stage seams VAL --characters 10 --seed 39000
    python -m rotopaint_ai.training.models.fill.risk VAL --model fill.onnx

Prints, for every doubt (`seams.choice.doubt`) from which on stretches might be given to the network: the share of the
stretches, what auto would reach then, and how many of the given ones the network makes worse. `seams.choice` takes
EASY and HARD from this table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.inference.models import FillModel
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.seams import learned, method_selection, relight
from rotopaint_ai.training.models.fill.ribbons import Laid, laid
from rotopaint_ai.training.models.fill.table import GAMMA

Array = npt.NDArray[Any]

DOUBTS = (0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 1e9)
_FEWEST = 20  # matte samples of a stretch that counts
_NOTHING = 1e-7  # squared display light that nobody sees


def stretches(some: Iterable[Laid], model: learned.FillModel) -> Array:
    """Doubt, and squared error of display light of the tables' and of the network's paint, of each stretch (n, 3)."""
    return np.concatenate([_of_ribbon(one, model) for one in some])


def _of_ribbon(one: Laid, model: learned.FillModel) -> Array:
    scene = one.scene
    own_TS, hole_TS = scene.ribbon.own_TS, scene.hole_TS
    given = (scene.light_TSC, hole_TS, own_TS, scene.floor)
    by_tables, _ = method_selection.two_bank(*given, None)
    by_network, _ = method_selection.by_network(*given, model)
    known = relight.sources(scene.light_TSC, hole_TS)
    wanted = own_TS & hole_TS & scene.ribbon.inside_TS
    true = _display(one.true_TSC, one)
    columns = [method_selection.doubt(by_tables, known, hole_TS, own_TS)]
    for relit in (by_tables, by_network):
        made = _display(relit[..., :3] + relit[..., 3:] * scene.light_TSC, one)
        columns.append(method_selection.per_stretch(((made - true) ** 2).mean(2), wanted))
    counted = method_selection.per_stretch(np.ones(wanted.shape, np.float32), wanted, total=True) >= _FEWEST
    return np.stack(columns, 1)[counted]


def _display(light_TSC: Array, one: Laid) -> Array:
    return np.asarray(np.exp(np.minimum(light_TSC - one.exposure, 4.0) / GAMMA))


def curve(rows: Array, doubts: Sequence[float] = DOUBTS) -> list[dict[str, float]]:
    """For each doubt: the share given to the network, dB of all stretches and of the worst tenth, and the share lost.

    dB are means over stretches of -10 log10 of the squared error; `lost`: of the given stretches, those that come out
    worse than by the tables.
    """
    found = []
    for doubt in doubts:
        given = rows[:, 0] >= doubt
        error = np.where(given, rows[:, 2], rows[:, 1])
        decibel = -10.0 * np.log10(error + _NOTHING)
        worst = np.sort(decibel)[: max(1, len(decibel) // 10)]
        lost = float((rows[given, 2] > rows[given, 1]).mean()) if given.any() else 0.0
        row = {
            "doubt": doubt,
            "share": given.mean(),
            "db": decibel.mean(),
            "worst_tenth_db": worst.mean(),
            "lost": lost,
        }
        found.append({name: round(float(value), 4) for name, value in row.items()})
    return found


def main() -> int:
    """Measure, and print the table as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, help="a folder of shots of the stage")
    parser.add_argument("--model", type=Path, required=True, help="fill.onnx")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    try:
        strip = np.zeros((1, 32, 32, learned.N_CHANNELS), np.float32)
        model = FillModel(open_session(options.model, device="cpu", threads=1, example={"strip": strip}))
        folders = sorted(each for each in options.shots.iterdir() if (each / "truth.roto.json").exists())
        rng = np.random.default_rng(options.seed)
        rows = stretches(laid(folders, rng, every=1, sizes=2, made_up=1), model)
    except (RotopaintError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for row in curve(rows):
        sys.stdout.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
