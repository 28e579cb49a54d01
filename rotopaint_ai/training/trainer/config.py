"""The config of every training, and recipes: YAML files that are validated into such configs.

    rotopaint train DATASET --out PACK --recipe mine.yaml --set minutes=5 --set augment.occluders=0.2

A recipe contains only what differs from a config's defaults; `recipes/*.yaml` are the shipped ones. Parts can be
registered by installed packages (entry point group `rotopaint_ai.parts`) and by the recipe's `plugins`; both are loaded
first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import metadata, resources
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import yaml

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.training.trainer.activations import MODES
from rotopaint_ai.training.trainer.group import HOOKS
from rotopaint_ai.training.trainer.optim import OPTIMISERS
from rotopaint_ai.value_checks import check
from rotopaint_ai.yaml_text import yaml_errors, yaml_loader

AnyConfig = TypeVar("AnyConfig", bound=Any)
PARTS = "rotopaint_ai.parts"  # entry point group: modules of installed packages that register parts
RENAMED: Mapping[str, str] = {  # names of fields and losses in older recipes
    "log_every": "eval_every",
    "bent": "elastic",
    "turned": "pose",
    "slant": "anisotropy",
    "judge": "classify",
    "judge_box": "refine_box",
    "made_up": "synthetic",
}
SETTLED: Mapping[str, Any] = {  # removed fields of older recipes; accepted with the value that everyone used
    **{"bend": 0.012, "elastic_shift": 0.012, "centre_jitter": 0.5, "shape_warp": 0.06},
    **{"turned_yaw_deg": 12.0, "turned_pitch_deg": 7.0, "pose_yaw_deg": 12.0, "pose_pitch_deg": 7.0},
    **{"zoom_low": 0.45, "zoom_high": 1.6, "channels_last": True, "patience": None, "int8": False},
}


def load_config(defaults: AnyConfig, recipe: str | Path | None, overrides: Iterable[str] = ()) -> AnyConfig:
    """`defaults` (a frozen dataclass) changed by a recipe (a file or a shipped name) and by `key=value` overrides.

    A dot in a key addresses a table entry. None is the shipped recipe `character`.
    Raises: UsageError naming the recipe, the field, what it got and what it wanted.
    """
    content, where = read_content(recipe)
    return override(_fill_config(defaults, content, where), list(overrides))


def read_content(recipe: str | Path | None) -> tuple[dict[str, Any], str]:
    """The fields of a recipe file or shipped recipe, not yet validated, and its name for messages.

    Paths of plugins become absolute. Raises UsageError.
    """
    text, where = _find_recipe(recipe)
    content = parse_content(text, where)
    return _with_absolute_paths(content, Path(str(recipe)).parent, where), where


def _with_absolute_paths(content: dict[str, Any], folder: Path, where: str) -> dict[str, Any]:
    names = content.get("plugins") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: plugins is {names!r}; wanted a list of Python files such as [myhead.py]")
    return {**content, "plugins": [str((folder / name).resolve()) for name in names]} if names else content


def parse_content(text: str, where: str) -> dict[str, Any]:
    """The fields of a recipe's text, not yet validated. Raises UsageError naming `where`."""
    try:
        content = yaml.load(text, yaml_loader(aliases=True)) or {}
    except yaml_errors() as error:
        raise UsageError(f"{where}: not valid YAML ({error}); correct the recipe") from error
    if not isinstance(content, dict):
        raise UsageError(f"{where}: wanted named fields such as 'minutes: 12'")
    return content


def gives_config(text: str, config: Any) -> bool:
    """Whether a recipe's text, also of an older version, gives this config."""
    try:
        return bool(_fill_config(type(config)(), parse_content(text, "checkpoint"), "checkpoint") == config)
    except UsageError:
        return False


def override(config: AnyConfig, settings: Iterable[str]) -> AnyConfig:
    """Apply `key=value` texts, the values in YAML; later ones win. Raises UsageError."""
    content = _parse_settings(settings)
    return _fill_config(config, content, "--set") if content else config


def _parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """The fields of `key=value` texts; plugin paths are relative to the working directory."""
    content: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: wanted key=value, such as minutes=5")
        try:
            value = yaml.load(text, yaml_loader(aliases=True))
        except yaml_errors() as error:
            raise UsageError(f"--set {setting}: the value is not valid YAML") from error
        name, dot, inner = key.strip().partition(".")
        table = content.get(name)
        content[name] = {**(table if isinstance(table, dict) else {}), inner: value} if dot else value
    return _with_absolute_paths(content, Path(), "--set")


def recipe_names() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in _recipe_folder().iterdir() if entry.name.endswith(".yaml")
    )


def load_plugins(recipe: str | Path | None, overrides: Iterable[str] = ()) -> None:
    """Import the parts of installed packages, and run the Python files listed as `plugins`, each once.

    They register parts or whole networks. Raises UsageError if one is missing or fails.
    """
    _import_installed_parts()
    for content, where in (read_content(recipe), (_parse_settings(overrides), "--set")):
        for name in content.get("plugins") or ():
            _run_plugin(Path(name), where)


def _import_installed_parts() -> None:
    for entry in metadata.entry_points(group=PARTS):
        try:
            entry.load()
        except Exception as error:  # third-party code
            package = entry.dist.name if entry.dist is not None else entry.value
            raise UsageError(
                f"plugin '{entry.name}' of the installed package {package}: {type(error).__name__}: {error}; repair "
                f"it, or remove it: pip uninstall {package}"
            ) from error


def _run_plugin(path: Path, where: str) -> None:
    name = f"rotopaint_plugin:{path}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{where}: plugin {path}: no such Python file; give its path relative to the recipe")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # third-party code
        del sys.modules[name]
        raise UsageError(f"{where}: plugin {path}: {type(error).__name__}: {error}; repair it, or remove it") from error


def _recipe_folder() -> Any:
    return resources.files("rotopaint_ai.training").joinpath("recipes")


def _find_recipe(recipe: str | Path | None) -> tuple[str, str]:
    name = "character" if recipe is None else str(recipe)
    if name in recipe_names():
        return _recipe_folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"recipe '{name}'"
    try:
        return file_bytes(Path(name)).decode(), name
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(recipe_names())
        raise UsageError(f"recipe '{name}': cannot be read; wanted a YAML file or one of {known}") from error


def _fill_config(config: AnyConfig, content: Mapping[str, Any], where: str) -> AnyConfig:
    kinds = get_type_hints(type(config))
    whole = {field.name: getattr(config, field.name) for field in fields(config)}
    for given, value in content.items():
        if given in SETTLED and value == SETTLED[given]:
            continue
        name = RENAMED.get(given, given)
        whole[name] = _interpret(kinds.get(name), value, whole.get(name))
    try:
        return check(whole, type(config), error=UsageError)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _interpret(kind: Any, value: Any, before: Any) -> Any:
    """The value that a person means.

    YAML reads 1e-3 as text; it becomes a number. A table changes only the entries that it names; null switches an entry
    off.
    """
    if kind == dict[str, float] and isinstance(value, dict):
        parts = {RENAMED.get(name, name): part for name, part in value.items()}
        return {
            **before,
            **{name: 0.0 if part is None else _interpret(float, part, None) for name, part in parts.items()},
        }
    if isinstance(value, str) and float in (kind, *get_args(kind)):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


PACK = "pack"  # the task of a recipe without `task`: both models of a pack
SHOT = "shot"  # the task that trains a pack on a project's corrections


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """The settings common to the recipes of all networks.

    The whole command takes at most `minutes`, and training at most `steps`; one of them may be null. With `minutes:
    null` a run is bit-exactly repeatable on one machine; with a time limit it is not.
    """

    task: str = PACK
    name: str = ""
    plugins: tuple[str, ...] = ()  # Python files that register custom parts
    minutes: float | None = 11.0
    steps: int | None = None
    batch: int = 16
    optimiser: str = "adamw"
    learning_rate: float = 2e-3
    warmup: float = 0.03  # share of the steps
    weight_decay: float = 0.02
    clip: float = 5.0  # norm of the gradients
    ema: float = 0.997
    bf16: bool = True
    threads: int = 1  # 0: every core
    activations: str = "auto"  # auto, keep, checkpoint or offload; auto saves memory once it runs out
    compression: str = "none"  # of gradients between ranks: none, bf16 or powersgd
    equal_ranks: bool = False  # batch norms use the whole batch, as in one process; slower
    seed: int = 1
    eval_every: int = 250  # steps

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raises UsageError naming the first invalid field."""
        _ = OPTIMISERS[self.optimiser], HOOKS[self.compression]
        check_ranges(self, _RANGES)
        check_all(
            (
                (
                    self.minutes is not None or self.steps is not None,
                    "minutes and steps are both null; wanted one of them",
                ),
                (self.minutes is None or self.minutes > 0, f"minutes {self.minutes}: wanted more than 0"),
                (self.steps is None or self.steps > 0, f"steps {self.steps}: wanted more than 0"),
                (self.activations in MODES, f"activations {self.activations}: wanted one of {', '.join(MODES)}"),
                (0 <= self.ema < 1, f"ema {self.ema}: wanted 0 to below 1"),
                (self.learning_rate > 0, f"learning_rate {self.learning_rate}: wanted more than 0"),
            )
        )

    @property
    def limit_s(self) -> float | None:
        """Time limit of the whole command in seconds."""
        return None if self.minutes is None else self.minutes * 60

    def to_yaml(self) -> str:
        """The whole config as YAML text; `load_config` reads it back unchanged."""
        content = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return cast(str, yaml.safe_dump(content, sort_keys=False, width=120))


_RANGES: Mapping[str, tuple[float, float]] = {
    **{"batch": (2, 65_536), "seed": (0, 2**32 - 1), "threads": (0, 1024), "eval_every": (1, math.inf)},
    **{"learning_rate": (0, 1), "warmup": (0, 0.9), "weight_decay": (0, 1), "clip": (1e-3, math.inf)},
}


def check_ranges(config: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raises UsageError naming the first field outside its range; null is allowed."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            wanted = f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
            raise UsageError(f"{name} {value}: wanted {wanted}")


def check_all(rules: Iterable[tuple[bool, str]]) -> None:
    """Raises UsageError with the message of the first rule that is false."""
    for holds, message in rules:
        if not holds:
            raise UsageError(message)


def check_weights(augment: Mapping[str, float], losses: Mapping[str, float]) -> None:
    """Raises UsageError unless augmentations are given as probabilities and losses as weights."""
    check_all(
        (
            (all(0 <= p <= 1 for p in augment.values()), "augment: wanted probabilities from 0 to 1"),
            (
                all(weight >= 0 for weight in losses.values()) and any(losses.values()),
                "losses: wanted weights of 0 or more, at least one above 0",
            ),
        )
    )
