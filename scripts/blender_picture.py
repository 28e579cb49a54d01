"""Make the documentation's picture of mattes: drawn by this product, drawn by Blender, and their difference.

python scripts/blender_picture.py SHAPES FRAME OUT.png [PYTHON_WITH_BPY]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import OpenImageIO as oiio
from numpy.typing import NDArray

from rotopaint_ai.exchange import blender, formats
from rotopaint_ai.shapes.bezier import as_array, length
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import RotoDocument

RENDER = """
import bpy, json, sys
job = json.loads(sys.argv[2])
bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
scene = bpy.context.scene
scene.use_nodes = True
tree = scene.node_tree
tree.nodes.clear()
node, out = tree.nodes.new("CompositorNodeMask"), tree.nodes.new("CompositorNodeComposite")
tree.links.new(node.outputs[0], out.inputs[0])
node.mask = bpy.data.masks[0]
scene.frame_set(job["frame"])
scene.render.image_settings.file_format, scene.render.image_settings.color_depth = "OPEN_EXR", "32"
for place, name in enumerate(job["layers"]):
    for layer in node.mask.layers:
        layer.hide_render = layer.name != name
    scene.render.filepath = "%s/%d.exr" % (job["out"], place)
    bpy.ops.render.render(write_still=True)
"""
COLOURS = {True: (1.0, 0.78, 0.45), False: (0.25, 0.65, 1.0)}  # closed shapes, seams: red, green, blue
SCALE = 2


def render_mattes(python: str, document: RotoDocument, frame: int) -> list[NDArray[np.float32]]:
    """Each shape's matte at a frame, as Blender's compositor draws the exported mask."""
    names = blender.blender_names(document)
    with tempfile.TemporaryDirectory() as folder:
        script, blend = Path(folder) / "masks.py", Path(folder) / "masks.blend"
        script.write_text(blender.dumps(document), encoding="utf-8")
        job = json.dumps({"frame": frame, "layers": list(names.values()), "out": folder})
        for words in ([str(script), "--", "--save", str(blend)], ["-c", RENDER, str(blend), job]):
            subprocess.run([python, *words], check=True, stdout=subprocess.DEVNULL)
        planes = [oiio.ImageBuf(f"{folder}/{i}.exr").get_pixels(oiio.FLOAT) for i in range(len(names))]
    return [np.asarray(plane)[..., 0] for plane in planes]


def colour_mattes(document: RotoDocument, planes: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Mattes composited in their colours, with the outline of the face dimmed behind them."""
    out = np.zeros((*planes[0].shape, 3), np.float32)
    for shape, plane in sorted(zip(document.shapes, planes, strict=True), key=lambda pair: -float(pair[1].sum())):
        strength = 0.25 if plane.sum() > 0.03 * plane.size else 1.0
        out = out * (1 - plane[..., None]) + plane[..., None] * strength * np.array(COLOURS[shape.closed], np.float32)
    return out


def label_panel(picture: NDArray[np.float32], text: str) -> NDArray[np.uint8]:
    """An enlarged panel with a line of text below."""
    codes = np.clip(picture[..., ::-1] * 255, 0, 255).astype(np.uint8)
    codes = cv2.resize(codes, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_NEAREST)
    strip = np.full((44, codes.shape[1], 3), 24, np.uint8)
    cv2.putText(strip, text, (12, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.72, (230, 230, 230), 1, cv2.LINE_AA)
    return np.vstack((codes, strip))


def main() -> None:
    """Draw the picture and write it."""
    document, _ = formats.read(sys.argv[1])
    frame, out = int(sys.argv[2]), sys.argv[3]
    python = sys.argv[4] if len(sys.argv) > 4 else ".venv-bpy/bin/python"
    document = replace(document, shapes=tuple(s for s in document.shapes if s.keys and s.is_visible(frame)))
    ours = [
        matte(s, frame, document.width, document.height).paste(document.width, document.height) for s in document.shapes
    ]
    theirs = render_mattes(python, document, frame)
    inside = np.argwhere(np.maximum.reduce(ours) > 0)
    (top, left), (bottom, right) = np.maximum(inside.min(0) - 8, 0), inside.max(0) + 8
    window = (slice(top, bottom), slice(left, right))
    apart = np.maximum.reduce([abs(a - b) for a, b in zip(ours, theirs, strict=True)])
    edges = [length(as_array(s.at(frame)), s.closed) * (1 if s.closed else 2) for s in document.shapes]
    shift = max(abs(float(b.sum() - a.sum())) / e for a, b, e in zip(ours, theirs, edges, strict=True))
    panels = [
        label_panel(colour_mattes(document, ours)[window], f"RotoPaint AI, frame {frame}"),
        label_panel(colour_mattes(document, theirs)[window], "Blender 4.2, from the exported script"),
        label_panel(np.repeat(apart[window][..., None], 3, 2), f"largest difference; edges {shift:.2f} px apart"),
    ]
    cv2.imwrite(out, np.hstack(panels))


if __name__ == "__main__":
    main()
