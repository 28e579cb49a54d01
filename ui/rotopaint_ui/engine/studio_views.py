"""Views of the studio's OCIO config, in addition to the built-in ones; they affect only the screen.

A view's name is `STUDIO` followed by display and view. Frames, runs and clean plates do not depend on it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import UsageError
from rotopaint_ai.plates.colour import CONFIG, WORKING_SPACE
from rotopaint_ui.settings.preferences import STUDIO

Array = NDArray[Any]
_APART = " / "  # between display and view


def studio_views(config: str | None) -> list[str]:
    """The views of every active display of a config file (None: none). Raises UsageError where it cannot be read."""
    if not config:
        return []
    found = _load_config(config)
    return [f"{STUDIO}{display}{_APART}{view}" for display in found.getDisplays() for view in found.getViews(display)]


def to_studio_view(rgb_linear: Array, view: str, config: str | None) -> Array:
    """Scene-linear (..., 3) as display-referred float32 0..1 through a view of the studio's config; NaN becomes 0.

    Raises: UsageError where the config has no such view, or no conversion from ACES.
    """
    if view not in studio_views(config):
        raise UsageError(f"view '{view}': $OCIO has none of that name; choose another in the list over the viewer")
    display, _, name = view.removeprefix(STUDIO).partition(_APART)
    flat = np.array(rgb_linear, np.float32).reshape(-1, 3)
    _processor(str(config), display, name).applyRGB(flat)
    return np.clip(np.nan_to_num(flat.reshape(rgb_linear.shape), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


@lru_cache(maxsize=2)
def _load_config(config: str) -> Any:
    import PyOpenColorIO as ocio

    try:
        return ocio.Config.CreateFromFile(config)
    except ocio.Exception as error:
        raise UsageError(f"$OCIO {config}: cannot be read ({_first_line(error)}); the built-in views stay") from error


@lru_cache(maxsize=16)
def _processor(config: str, display: str, view: str) -> Any:
    import PyOpenColorIO as ocio

    builtin, way = ocio.Config.CreateFromFile(CONFIG), ocio.TRANSFORM_DIR_FORWARD
    try:
        made = ocio.Config.GetProcessorFromConfigs(builtin, WORKING_SPACE, _load_config(config), display, view, way)
    except ocio.Exception as error:
        advice = "it needs the roles aces_interchange and cie_xyz_d65_interchange"
        raise UsageError(f"$OCIO, view '{view}': {_first_line(error)}; {advice}") from error
    return made.getDefaultCPUProcessor()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0].rstrip(".")
