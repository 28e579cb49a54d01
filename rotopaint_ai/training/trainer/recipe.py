"""A training recipe: one YAML file that names registered parts, checked at the door into a frozen value.

    rotopaint train DATASET --out PACK --recipe mine.yaml --set minutes=5 --set augment.occluders=0.2

A recipe file needs to hold only what differs from the defaults below; `recipes/*.yaml` are the shipped ones.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import yaml

from rotopaint_ai.errors import UsageError
from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.models.landmarks.losses import LOSSES
from rotopaint_ai.training.models.landmarks.net import BACKBONES
from rotopaint_ai.training.trainer.activations import MODES
from rotopaint_ai.training.trainer.optim import OPTIMISERS
from rotopaint_ai.training.trainer.parallel.group import HOOKS

AnyRecipe = TypeVar("AnyRecipe", bound=Any)


def _losses() -> dict[str, float]:
    return {
        "coarse_heat": 1.0,
        "coarse_place": 0.5,
        "fine_heat": 1.0,
        "place": 1.0,
        "expected_error": 0.1,
        "slant": 0.1,
        "visible": 0.2,
    }


def _augment() -> dict[str, float]:
    return {
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


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides a training run, apart from the data.

    Sizes in pixels, `minutes` of training proper (loading and export come on top), shares from 0 to 1. Training ends at
    `minutes` or `steps`, whichever comes first (one of them may be null), or when the held-out error has not improved
    for `patience` evaluations. With `minutes: null` a run is repeatable to the last bit on one machine; a clock is not.
    """

    name: str = "character"
    input_size: int = 256
    crop_margin: float = 1.3  # crop side over the landmarks' longest side ...
    shape_margin: float = 1.15  # ... or over that of the shapes, where this makes the smaller crop
    # the network
    backbone: str = "dense"
    widths: tuple[int, ...] = (16, 32, 64, 96, 128)
    depths: tuple[int, ...] = (1, 1, 3, 4)
    neck: int = 48
    fine: int = 16
    window: int = 9
    # the schedule
    minutes: float | None = 12.0
    steps: int | None = None
    small_size: int = 192  # crops of this size at first, which is faster; the input size afterwards
    small_share: float = 0.5  # share of the run at the small size
    batch: int = 16
    optimiser: str = "adamw"
    learning_rate: float = 2e-3
    warmup: float = 0.03
    weight_decay: float = 0.02
    clip: float = 5.0
    ema: float = 0.998
    bf16: bool = True
    channels_last: bool = True
    threads: int = 0  # 0: every core
    activations: str = "auto"  # what a step keeps: keep, checkpoint, offload; auto keeps less when memory runs out
    compression: str = "none"  # of the gradients that ranks exchange: none, bf16, fp16, powersgd
    equal_ranks: bool = False  # ranks normalise over the whole batch, as one process would; slower
    seed: int = 1
    eval_every: int = 250  # steps
    eval_limit: int = 400  # held-out samples looked at during training
    patience: int | None = None
    learn_all: float = 0.0  # share of the run, at its end, in which held-out samples are learned from as well
    # what a batch looks like and what is asked of it
    losses: dict[str, float] = field(default_factory=_losses)
    hidden_weight: float = 0.3
    centre_jitter: float = 0.5  # spread of the fine windows' places in training, in coarse cells
    augment: dict[str, float] = field(default_factory=_augment)
    scale_low: float = 0.85
    scale_high: float = 1.35
    shift: float = 0.07
    rotation_deg: float = 25.0
    flip: float = 0.5
    shear: float = 0.1
    perspective: float = 0.3
    bent: float = 0.0  # share of the samples that are bent smoothly ...
    bend: float = 0.012  # ... each place by so much of the crop's side, as a deviation
    turned: float = 0.0  # share of the samples that are shown from another side, by the character's own relief ...
    turned_yaw_deg: float = 12.0  # ... turned by angles with these deviations
    turned_pitch_deg: float = 7.0
    prior: bool = True  # draw landmarks towards what the keyed frames say the face can do, where that helps
    seam_minutes: float = 0.0  # for teaching the seam network of the pack started from; 0 takes it as it is
    # the shape model
    shape_copies: int = 2  # warped copies of each keyed frame
    shape_warp: float = 0.06
    shape_noise: float | None = None  # landmark error to guard the shapes against, share of the face; null: measured

    def __post_init__(self) -> None:
        _check(self)

    def to_yaml(self) -> str:
        """The whole recipe as YAML text that `load_recipe` reads back to an equal one."""
        content = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return cast(str, yaml.safe_dump(content, sort_keys=False, width=120))


def load_recipe(recipe: str | Path | None = None, overrides: Iterable[str] = ()) -> Recipe:
    """A recipe by file or shipped name (None: `character`), with `key=value` overrides; a dot reaches into a table.

    Raises: UsageError naming the recipe, the field, what it got and what it wanted.
    """
    return filled_from(Recipe(), recipe, overrides)


def filled_from(start: AnyRecipe, recipe: str | Path | None, overrides: Iterable[str] = ()) -> AnyRecipe:
    """As `load_recipe`, into a recipe of any kind (a frozen dataclass)."""
    content, where = read_content(recipe)
    return override(_filled(start, content, where), overrides)


def read_content(recipe: str | Path | None) -> tuple[dict[str, Any], str]:
    """The fields that a recipe file or a shipped recipe gives, unchecked, and where they stand. Raises UsageError."""
    text, where = _find(recipe)
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: not valid YAML ({error}); mend the recipe") from error
    if not isinstance(content, dict):
        raise UsageError(f"{where}: wanted named fields such as 'minutes: 12'")
    return content, where


def override(recipe: AnyRecipe, settings: Iterable[str]) -> AnyRecipe:
    """Apply `key=value` texts together, the values as YAML; a later one wins. Raises UsageError."""
    content: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: wanted key=value, such as minutes=5")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"--set {setting}: the value is not valid YAML") from error
        name, dot, inner = key.strip().partition(".")
        table = content.get(name)
        content[name] = {**(table if isinstance(table, dict) else {}), inner: value} if dot else value
    return _filled(recipe, content, "--set") if content else recipe


def recipe_names() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def _shipped() -> Any:
    return resources.files("rotopaint_ai.training").joinpath("recipes")


def _find(recipe: str | Path | None) -> tuple[str, str]:
    name = "character" if recipe is None else str(recipe)
    if name in recipe_names():
        return _shipped().joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"recipe '{name}'"
    try:
        return Path(name).read_text(encoding="utf-8"), name
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(recipe_names())
        raise UsageError(f"recipe '{name}': cannot be read; wanted a YAML file or one of {known}") from error


def _filled(recipe: AnyRecipe, content: Mapping[str, Any], where: str) -> AnyRecipe:
    kinds = get_type_hints(type(recipe))
    changes: dict[str, Any] = {}
    for name, value in content.items():
        if name not in kinds:
            raise UsageError(f"{where}: unknown field '{name}'; known are {', '.join(f.name for f in fields(recipe))}")
        if kinds[name] == dict[str, float]:
            changes[name] = _merged(getattr(recipe, name), value, f"{where}: {name}")
        else:
            changes[name] = _cast(kinds[name], value, f"{where}: {name}")
    try:
        return replace(recipe, **changes)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _merged(table: Mapping[str, float], value: Any, where: str) -> dict[str, float]:
    """A table with some entries changed; 0 or null puts a part out of work."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is {value!r}; wanted a table of names and numbers")
    given = {str(name): 0.0 if v is None else float(_cast(float, v, f"{where}.{name}")) for name, v in value.items()}
    return {**table, **given}


def _cast(kind: Any, value: Any, where: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return None if value is None else _cast(get_args(kind)[0], value, where)
    if get_origin(kind) is tuple:
        if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return tuple(value)
        raise UsageError(f"{where} is {value!r}; wanted a list of whole numbers such as [16, 32]")
    if kind is float and isinstance(value, str):
        value = _number(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if kind in (int, bool, str) and type(value) is kind:
        return value
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    raise UsageError(f"{where} is {value!r}; wanted {wanted}")


def _number(text: str) -> Any:
    """What a person writes for a number and YAML takes for text, such as 1e-3; the text where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


_RANGES: Mapping[str, tuple[float, float]] = {
    **{"batch": (2, 65_536), "seed": (0, 2**32 - 1), "threads": (0, 1024), "patience": (1, math.inf)},
    **{"learning_rate": (0, 1), "warmup": (0, 0.9), "weight_decay": (0, 1), "clip": (1e-3, math.inf)},
    **{"hidden_weight": (0, 10), "centre_jitter": (0, 4), "small_size": (32, 1024)},
    **{"scale_low": (0.1, 10), "scale_high": (0.1, 10), "shift": (0, 0.5), "rotation_deg": (0, 180)},
    **{"flip": (0, 1), "shear": (0, 1), "perspective": (0, 1), "bent": (0, 1), "bend": (0, 0.1)},
    **{"shape_copies": (0, 100), "shape_warp": (0, 1), "shape_noise": (0, 1)},
}
_PLACING = ("coarse_heat", "coarse_place", "fine_heat", "place", "wing")  # losses that ask where a landmark is


def _check_ranges(recipe: Recipe) -> None:
    for name, (low, high) in _RANGES.items():
        value = getattr(recipe, name)
        if value is not None and not low <= value <= high:
            wanted = f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
            raise UsageError(f"{name} {value}: wanted {wanted}")


def _check(recipe: Recipe) -> None:
    r = recipe
    _check_ranges(r)
    _ = BACKBONES[r.backbone], OPTIMISERS[r.optimiser], HOOKS[r.compression], *(PARTS[name] for name in r.augment)
    _ = tuple(LOSSES[name] for name in r.losses)
    for ok, message in (
        (32 <= r.input_size <= 1024 and r.input_size % 32 == 0, f"input_size {r.input_size}: wanted a multiple of 32"),
        (r.small_size % 32 == 0 and r.small_size >= 32, f"small_size {r.small_size}: wanted a multiple of 32"),
        (1.0 <= r.shape_margin <= 3.0, f"shape_margin {r.shape_margin}: wanted 1 to 3"),
        (1.0 <= r.crop_margin <= 3.0, f"crop_margin {r.crop_margin}: wanted 1 to 3"),
        (len(r.widths) == len(r.depths) + 1, "depths: wanted one for each width after the first"),
        (len(r.widths) == 5, f"widths {r.widths}: wanted 5, for the strides 2, 4, 8, 16 and 32"),
        # oneDNN's bf16 kernels crash the process on some other channel counts
        (all(w > 0 and w % 8 == 0 for w in (*r.widths, r.neck)), "widths, neck: wanted multiples of 8"),
        (r.fine >= 0 and r.fine % 8 == 0, f"fine {r.fine}: wanted a multiple of 8, or 0 for none"),
        (all(depth >= 1 for depth in r.depths), f"depths {r.depths}: wanted 1 or more"),
        (r.window % 2 == 1 and 3 <= r.window <= 15, f"window {r.window}: wanted an odd number from 3 to 15"),
        (r.minutes is not None or r.steps is not None, "minutes and steps are both null; wanted one of them"),
        (r.minutes is None or r.minutes > 0, f"minutes {r.minutes}: wanted more than 0"),
        (r.steps is None or r.steps > 0, f"steps {r.steps}: wanted more than 0"),
        (r.activations in MODES, f"activations {r.activations}: wanted one of {', '.join(MODES)}"),
        (r.batch >= 2, f"batch {r.batch}: wanted 2 or more, which batch normalisation needs"),
        (0 <= r.ema < 1, f"ema {r.ema}: wanted 0 to below 1"),
        (r.learning_rate > 0, f"learning_rate {r.learning_rate}: wanted more than 0"),
        (0 < r.scale_low <= r.scale_high, "scale_low, scale_high: wanted 0 < low <= high"),
        (0 <= r.seam_minutes <= 60, f"seam_minutes {r.seam_minutes}: wanted 0 to 60"),
        (0 <= r.learn_all < 1, f"learn_all {r.learn_all}: wanted 0 to below 1"),
        (0 <= r.small_share <= 1, f"small_share {r.small_share}: wanted 0 to 1"),
        (r.eval_every >= 1 and r.eval_limit >= 1, "eval_every, eval_limit: wanted 1 or more"),
        (0 <= r.turned <= 1, f"turned {r.turned}: wanted 0 to 1"),
        (
            0 <= r.turned_yaw_deg <= 30 and 0 <= r.turned_pitch_deg <= 30,
            "turned_yaw_deg, turned_pitch_deg: wanted 0 to 30",
        ),
        (r.shape_copies >= 0, f"shape_copies {r.shape_copies}: wanted 0 or more"),
        (all(0 <= p <= 1 for p in r.augment.values()), "augment: wanted probabilities from 0 to 1"),
        (all(w >= 0 for w in r.losses.values()), "losses: wanted weights of 0 or more"),
        (
            any(r.losses.get(name) for name in _PLACING),
            f"losses: none asks where landmarks are; wanted one of {', '.join(_PLACING)} above 0",
        ),
    ):
        if not ok:
            raise UsageError(message)
