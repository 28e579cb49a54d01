"""Write the masks of a Blender file for RotoPaint AI to read.

Run `blender -b shot.blend -P this_file.py -- masks.blender.json`, or run it in Blender's text editor, where it writes
NAME.blender.json beside the file. Then run `rotopaint convert NAME.blender.json shapes.nk`.
"""

import json
import os
import sys

import bpy


def dump():
    """Every mask as plain values: each spline's points at all key frames of its layer."""
    scene = bpy.context.scene
    render = scene.render
    before = scene.frame_current
    masks = [_dump_mask(scene, mask) for mask in bpy.data.masks]
    scene.frame_set(before)
    return {
        "format": "rotopaint-blender-masks",
        "version": 1,
        "width": render.resolution_x,
        "height": render.resolution_y,
        "pixel_aspect": render.pixel_aspect_x / render.pixel_aspect_y,
        "fps": render.fps / render.fps_base,
        "first_frame": scene.frame_start,
        "last_frame": scene.frame_end,
        "masks": masks,
    }


def _dump_mask(scene, mask):
    note = json.loads(mask.get("rotopaint", "{}"))
    frames = _key_frames(scene, mask)
    rows = [_layer_row(layer) for layer in mask.layers]
    every = sorted(set().union(*frames)) or [scene.frame_start]
    for frame in every:
        scene.frame_set(frame)
        for layer, row, keyed in zip(mask.layers, rows, frames):
            if frame in keyed or (not keyed and frame == every[0]):
                _dump_key(layer, row, frame)
    for layer, row in zip(mask.layers, rows):
        row["alpha"] = _alpha_keys(mask, layer)
    return {
        "name": mask.name,
        "first_frame": mask.frame_start,
        "last_frame": mask.frame_end,
        "note": note,
        "layers": rows,
    }


def _layer_row(layer):
    return {
        "name": layer.name,
        "hidden": layer.hide_render,
        "invert": layer.invert,
        "blend": layer.blend,
        "falloff": layer.falloff,
        "splines": [{"cyclic": spline.use_cyclic, "keys": []} for spline in layer.splines],
    }


def _dump_key(layer, row, frame):
    for spline, into in zip(layer.splines, row["splines"]):
        into["keys"].append([frame, [_dump_point(point) for point in spline.points]])


def _dump_point(point):
    feather = [[each.u, each.weight] for each in point.feather_points]
    six = [*point.co, *point.handle_left, *point.handle_right]
    return [*six, point.weight, feather] if feather else [*six, point.weight]


def _key_frames(scene, mask):
    """Frames of each layer's shape keys. Blender reveals them only by the clip editor's jump to the next key."""
    windows = bpy.context.window_manager.windows
    if not windows or not mask.layers:
        return [set(range(mask.frame_start, mask.frame_end + 1)) for _ in mask.layers]
    area = windows[0].screen.areas[0]
    kind = area.type
    area.type = "CLIP_EDITOR"
    space = area.spaces.active
    mode, space.mode, space.mask = space.mode, "MASK", mask
    region = next(each for each in area.regions if each.type == "WINDOW")
    found = []
    try:
        for index in range(len(mask.layers)):
            mask.active_layer_index = index
            with bpy.context.temp_override(window=windows[0], area=area, region=region, space_data=space):
                found.append(_jumps(scene))
    finally:
        space.mode = mode
        area.type = kind
    return found


def _jumps(scene):
    scene.frame_set(-1048574)
    frames = set()
    while bpy.ops.screen.keyframe_jump(next=True) == {"FINISHED"} and scene.frame_current not in frames:
        frames.add(scene.frame_current)
    return frames


def _alpha_keys(mask, layer):
    """The layer's opacity where it is animated or not 1: [frame, value, "hold" or "eased"], None for always."""
    action = mask.animation_data.action if mask.animation_data else None
    path = layer.path_from_id("alpha")
    for curve in action.fcurves if action else ():
        if curve.data_path == path:
            keys = curve.keyframe_points
            return [[*key.co, "hold" if key.interpolation == "CONSTANT" else "eased"] for key in keys]
    return [] if layer.alpha == 1.0 else [[None, layer.alpha, "hold"]]


def _target():
    words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if words:
        return os.path.abspath(words[0])
    return os.path.splitext(bpy.data.filepath or os.path.abspath("masks.blend"))[0] + ".blender.json"


if __name__ == "__main__":
    TARGET = _target()
    TEXT = json.dumps(dump())
    with open(TARGET, "w", encoding="utf-8") as stream:
        stream.write(TEXT)
    print(f"rotopaint: {len(bpy.data.masks)} masks written to {TARGET}")
