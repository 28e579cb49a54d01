"""Build animated masks in Blender from the data above.

Run it in Blender's text editor, or `blender -b shot.blend -P this_file.py -- --save shot.blend`. It needs only Blender
(tested with 4.2). A new file gets size, pixel aspect, frame rate and range from the data; an existing file keeps its
own.
"""

import json
import sys

import bpy


def build(data):
    """Build one mask with a layer for each shape, keyed at the frames of the data; returns the mask."""
    scene = bpy.context.scene
    if not bpy.data.filepath:
        _set_scene(scene, data)
    elif _proportions_of_render(scene.render) != _proportions_of_data(data):
        print(
            "rotopaint: made for",
            data["width"],
            "x",
            data["height"],
            "at pixel aspect",
            data["pixel_aspect"],
            "- the scene is not: masks will not fit",
        )
    mask = bpy.data.masks.new(data["name"])
    mask.frame_start, mask.frame_end = data["first_frame"], data["last_frame"]
    mask["rotopaint"] = json.dumps(
        {
            "width": data["width"],
            "height": data["height"],
            "reversed": [layer["name"] for layer in data["layers"] if layer["reversed"]],
        }
    )
    layers = [(_add_layer(mask, row), {key[0]: key[1] for key in row["keys"]}) for row in data["layers"]]
    _key_shapes(scene, mask, layers)
    for (layer, _), row in zip(layers, data["layers"]):
        _key_alpha(mask, layer, row["alpha"])
    scene.frame_set(data["first_frame"])
    return mask


def _proportions_of_render(render):
    aspect = render.pixel_aspect_x / render.pixel_aspect_y
    return round(render.resolution_x / render.resolution_y, 3), round(aspect, 3)


def _proportions_of_data(data):
    return round(data["width"] / data["height"], 3), round(data["pixel_aspect"], 3)


def _set_scene(scene, data):
    render = scene.render
    render.resolution_x, render.resolution_y, render.resolution_percentage = data["width"], data["height"], 100
    aspect = data["pixel_aspect"]  # neither number may be below 1
    render.pixel_aspect_x, render.pixel_aspect_y = max(aspect, 1.0), max(1.0 / aspect, 1.0)
    render.fps, render.fps_base = round(data["fps"]), round(data["fps"]) / data["fps"]
    scene.frame_start, scene.frame_end = data["first_frame"], data["last_frame"]


def _add_layer(mask, row):
    layer = mask.layers.new(name=row["name"])
    layer.falloff, layer.blend = "LINEAR", row.get("blend", "LIGHTEN")
    spline = layer.splines.new()
    spline.points.add(len(row["keys"][0][1]) - 1)
    spline.use_cyclic = row["cyclic"]
    _place_points(spline, row["keys"][0][1])
    return layer


def _place_points(spline, points):
    for point, (x, y, lx, ly, rx, ry, weight) in zip(spline.points, points):
        point.handle_left_type = point.handle_right_type = "FREE"
        point.co, point.handle_left, point.handle_right = (x, y), (lx, ly), (rx, ry)
        point.weight = weight


def _select_points(layer, chosen):
    layer.select = chosen
    for spline in layer.splines:
        for point in spline.points:
            point.select = chosen


def _key_shapes(scene, mask, layers):
    """Set the shape keys. Only an operator can do that, on selected points, in an image editor that shows the mask."""
    windows = bpy.context.window_manager.windows
    if not windows:
        raise RuntimeError(
            "rotopaint: Blender has no window; open the file in Blender and run this from its text editor"
        )
    area = windows[0].screen.areas[0]
    before = area.type
    area.type = "IMAGE_EDITOR"
    space = area.spaces.active
    mode, space.mode, space.mask = space.mode, "MASK", mask
    region = next(each for each in area.regions if each.type == "WINDOW")
    try:
        for frame in sorted({frame for _, keys in layers for frame in keys}):
            scene.frame_set(frame)
            for layer, keys in layers:
                _select_points(layer, frame in keys)
                if frame in keys:
                    _place_points(layer.splines[0], keys[frame])
            with bpy.context.temp_override(window=windows[0], area=area, region=region, space_data=space):
                if bpy.ops.mask.shape_key_insert() != {"FINISHED"}:
                    raise RuntimeError(f"rotopaint: Blender refused a mask key at frame {frame}")
    finally:
        space.mode = mode
        area.type = before


def _key_alpha(mask, layer, switches):
    for frame, alpha in switches:
        layer.alpha = alpha
        layer.keyframe_insert("alpha", frame=frame)
    if switches:
        path = layer.path_from_id("alpha")
        for curve in mask.animation_data.action.fcurves:
            if curve.data_path == path:
                for key in curve.keyframe_points:
                    key.interpolation = "CONSTANT"


if __name__ == "__main__":
    MASK = build(DATA)  # noqa: F821 - the data stands above
    WORDS = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if WORDS[:1] == ["--save"]:
        bpy.ops.wm.save_as_mainfile(filepath=WORDS[1])
    print(f"rotopaint: mask '{MASK.name}' with {len(MASK.layers)} layers")
