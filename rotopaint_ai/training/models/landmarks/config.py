"""What decides the training of a pack: its landmark network, what a batch looks like, and how its shapes are fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.models.backbone import PyramidConfig
from rotopaint_ai.training.models.landmarks.losses import LOSSES
from rotopaint_ai.training.models.landmarks.net import HEADS
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS
from rotopaint_ai.training.trainer import config as recipes
from rotopaint_ai.training.trainer.config import check_all, check_ranges, check_weights


@dataclass(frozen=True, slots=True)
class PackConfig(PyramidConfig):
    """Everything that decides a pack's training, apart from the data; what all networks share stands in `TrainConfig`.

    Sizes in pixels, shares from 0 to 1.
    """

    name: str = "character"
    minutes: float | None = 14.0
    ema: float = 0.998
    threads: int = 0
    depths: tuple[int, ...] = (1, 1, 3, 4)
    input_size: int = 256
    crop_margin: float = 1.3  # crop side over the landmarks' longest side ...
    shape_margin: float = 1.15  # ... or over that of the shapes, where this makes the smaller crop
    # the network
    head: str = "coarse_to_fine"
    fine: int = 16
    window: int = 9
    # the schedule
    small_size: int = 192  # crops of this size at first, which is faster; the input size afterwards
    small_share: float = 0.5  # share of the run at the small size
    eval_limit: int = 400  # held-out samples looked at during training
    learn_all: float = 0.0  # share of the run, at its end, in which held-out samples are trained on as well
    # what a batch looks like and what is asked of it
    losses: dict[str, float] = field(
        default_factory=lambda: {
            "coarse_heat": 1.0,
            "coarse_place": 0.5,
            "fine_heat": 1.0,
            "place": 1.0,
            "expected_error": 0.1,
            "anisotropy": 0.1,
            "visible": 0.2,
        }
    )
    hidden_weight: float = 0.3
    augment: dict[str, float] = field(
        default_factory=lambda: {
            "occluders": 0.4,
            "shadow": 0.3,
            "tone": 0.8,
            "colour": 0.6,
            "channels": 0.15,
            "coarse": 0.1,
            "blur": 0.15,
            "noise": 0.4,
            "jpeg": 0.15,
        }
    )
    scale_low: float = 0.85
    scale_high: float = 1.35
    shift: float = 0.07
    rotation_deg: float = 25.0
    flip: float = 0.5
    shear: float = 0.1
    perspective: float = 0.3
    elastic: float = 0.0  # share of the samples that are warped smoothly
    pose: float = 0.0  # share of the samples that are shown from another side, by the character's own relief
    int8: bool = False  # add the landmark model in integers for processors, where they cost at most 2 % of accuracy
    prior: bool = True  # draw landmarks towards what the keyed frames say the face can do, where that helps
    seam_minutes: float = 0.0  # for tuning the seam network of the pack started from; 0 takes it as it is
    # the shape model
    shape_model: str = "ridge"
    shape_copies: int = 2  # warped copies of each keyed frame
    shape_noise: float | None = None  # landmark error to guard the shapes against, share of the face; null: measured

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        PyramidConfig.check(self)
        check_ranges(self, _RANGES)
        _ = HEADS[self.head], [PARTS[name] for name in self.augment], [LOSSES[name] for name in self.losses]
        _ = SHAPE_MODELS[self.shape_model]
        check_weights(self.augment, self.losses)
        sizes = {name: getattr(self, name) for name in ("input_size", "small_size")}
        check_all((size % 32 == 0, f"{name} {size}: wanted a multiple of 32") for name, size in sizes.items())
        check_all(
            (
                (self.fine >= 0 and self.fine % 8 == 0, f"fine {self.fine}: wanted a multiple of 8, or 0 for none"),
                (
                    self.window % 2 == 1 and 3 <= self.window <= 15,
                    f"window {self.window}: wanted an odd number from 3 to 15",
                ),
                (0 < self.scale_low <= self.scale_high, "scale_low, scale_high: wanted 0 < low <= high"),
                (0 <= self.learn_all < 1, f"learn_all {self.learn_all}: wanted 0 to below 1"),
                (
                    any(self.losses.get(name) for name in _PLACING),
                    f"losses: none asks where landmarks are; wanted one of {', '.join(_PLACING)} above 0",
                ),
            )
        )


_RANGES: Mapping[str, tuple[float, float]] = {
    **{"input_size": (32, 1024), "small_size": (32, 1024), "small_share": (0, 1), "eval_limit": (1, 1_000_000)},
    **{"hidden_weight": (0, 10), "crop_margin": (1, 3), "shape_margin": (1, 3)},
    **{"scale_low": (0.1, 10), "scale_high": (0.1, 10), "shift": (0, 0.5), "rotation_deg": (0, 180)},
    **{"flip": (0, 1), "shear": (0, 1), "perspective": (0, 1), "elastic": (0, 1)},
    **{"pose": (0, 1), "seam_minutes": (0, 60)},
    **{"shape_copies": (0, 100), "shape_noise": (0, 1)},
}
_PLACING = ("coarse_heat", "coarse_place", "fine_heat", "place")  # losses that ask where a landmark is


def load_pack_config(recipe: str | Path | None = None, overrides: Iterable[str] = ()) -> PackConfig:
    """A pack's config by recipe file or shipped name (None: `character`), with `key=value` overrides.

    Raises: UsageError naming the recipe, the field, what it got and what it wanted.
    """
    recipes.load_plugins(recipe)
    return recipes.load_config(PackConfig(), recipe, overrides)
