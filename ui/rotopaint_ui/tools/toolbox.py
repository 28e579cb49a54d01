"""What the mouse does in the viewer: one module for each tool, each drag one undo step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rotopaint_ui.tools.base import KeyTool, MouseEvent, Tool
from rotopaint_ui.tools.clone import CloneTool
from rotopaint_ui.tools.crop import CropTool, crop_at
from rotopaint_ui.tools.draw import DrawTool
from rotopaint_ui.tools.edit_context import EditContext, EditReach
from rotopaint_ui.tools.landmark import LandmarkTool
from rotopaint_ui.tools.lasso import LassoTool
from rotopaint_ui.tools.points import PointsTool
from rotopaint_ui.tools.reshape import ReshapeTool
from rotopaint_ui.tools.select_tool import SelectTool
from rotopaint_ui.tools.transform import TransformTool
from rotopaint_ui.tools.width import WidthTool

TOOLS: Mapping[str, Callable[[EditContext], Tool]] = {
    "select": SelectTool,
    "lasso": LassoTool,
    "landmark": LandmarkTool,
    "draw": DrawTool,
    "reshape": ReshapeTool,
    "points": PointsTool,
    "transform": TransformTool,
    "width": WidthTool,
    "clone": CloneTool,
    "crop": CropTool,
}

__all__ = [
    "TOOLS",
    "EditContext",
    "EditReach",
    "KeyTool",
    "LandmarkTool",
    "MouseEvent",
    "ReshapeTool",
    "Tool",
    "crop_at",
]
