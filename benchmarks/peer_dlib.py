"""The peer of `real_faces.py`: dlib's shape predictor, trained and run in a separate interpreter.

    python benchmarks/peer_dlib.py ORDER.json THREADS        (needs: pip install dlib-bin numpy)

ORDER.json: {"train": [{picture, points, box}], "test": [[{picture, box}], ...], "mirror": [...]}; the result on stdout
is {setting: [[points of each face], ...]}. The origin of points is the picture's corner, as everywhere in this product;
dlib's origin is the centre of the first pixel.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any

import dlib
import numpy as np

SETTINGS = {
    "15 x 300 trees, depth 4, nu 0.1, oversampled 20": {"tree_depth": 4, "nu": 0.1, "oversampling_amount": 20},
    "15 x 300 trees, depth 3, nu 0.1, oversampled 30": {"tree_depth": 3, "nu": 0.1, "oversampling_amount": 30},
}


@lru_cache(maxsize=2048)
def _load(path: str) -> Any:
    return dlib.load_rgb_image(path)


def _rectangle(box: Any) -> Any:
    x, y, w, h = box
    return dlib.rectangle(round(x), round(y), round(x + w), round(y + h))


def _example(image: Any, points: Any, box: Any) -> tuple[Any, Any]:
    places = [dlib.point(round(x - 0.5), round(y - 0.5)) for x, y in points]
    return image, dlib.full_object_detection(_rectangle(box), places)


def _examples(order: Any) -> list[tuple[Any, Any]]:
    """Training examples: each face and its mirror image."""
    found = []
    for face in order["train"]:
        image, (x, y, w, h) = _load(face["picture"]), face["box"]
        width = image.shape[1]
        found.append(_example(image, face["points"], face["box"]))
        points = [(width - face["points"][k][0], face["points"][k][1]) for k in order["mirror"]]
        found.append(_example(np.ascontiguousarray(image[:, ::-1]), points, (width - x - w, y, w, h)))
    return found


def _train(examples: list[tuple[Any, Any]], setting: dict[str, float], threads: int) -> Any:
    options = dlib.shape_predictor_training_options()
    options.cascade_depth = 15
    options.num_trees_per_cascade_level = 300
    options.oversampling_translation_jitter = 0.05
    options.num_threads = threads
    options.be_verbose = False
    for name, value in setting.items():
        setattr(options, name, value)
    return dlib.train_shape_predictor([e[0] for e in examples], [[e[1]] for e in examples], options)


def main() -> None:
    """Train with each setting and predict every face of every list."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        order = json.load(stream)
    examples, answer = _examples(order), {}
    for name, setting in SETTINGS.items():
        predictor = _train(examples, setting, int(sys.argv[2]))
        answer[name] = [
            [
                [(p.x + 0.5, p.y + 0.5) for p in predictor(_load(face["picture"]), _rectangle(face["box"])).parts()]
                for face in faces
            ]
            for faces in order["test"]
        ]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
