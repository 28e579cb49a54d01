// Writes the masks of the open composition for RotoPaint AI to read: File > Scripts > Run Script File.
// Asks where to save NAME.ae.json; then: rotopaint convert NAME.ae.json shapes.nk

function rotopaintDump(comp) {
    var layers = [];
    for (var i = 1; i <= comp.numLayers; i++) {
        var row = rotopaintLayerRow(comp, comp.layer(i));
        if (row) {
            layers.push(row);
        }
    }
    return {
        format: "rotopaint-after-effects-masks",
        version: 1,
        width: comp.width,
        height: comp.height,
        pixel_aspect: comp.pixelAspect,
        fps: comp.frameRate,
        first_frame: Math.round(comp.displayStartTime / comp.frameDuration),
        n_frames: Math.round(comp.duration / comp.frameDuration),
        layers: layers
    };
}

function rotopaintLayerRow(comp, layer) {
    var masks = layer.property("ADBE Mask Parade");
    if (!masks || masks.numProperties === 0) {
        return null;
    }
    var rows = [];
    for (var i = 1; i <= masks.numProperties; i++) {
        rows.push(rotopaintMaskRow(comp, masks.property(i)));
    }
    return {
        name: layer.name,
        width: layer.width,
        height: layer.height,
        pixel_aspect: layer.source ? layer.source.pixelAspect : comp.pixelAspect,
        moved: rotopaintIsMoved(comp, layer),
        masks: rows
    };
}

// Points are the layer's own pixels: a layer that is moved, scaled or turned shows them elsewhere.
function rotopaintIsMoved(comp, layer) {
    var group = layer.property("ADBE Transform Group");
    var at = group.property("ADBE Position").value;
    var anchor = group.property("ADBE Anchor Point").value;
    var scale = group.property("ADBE Scale").value;
    var names = ["ADBE Position", "ADBE Anchor Point", "ADBE Scale", "ADBE Rotate Z"];
    for (var i = 0; i < names.length; i++) {
        if (group.property(names[i]).numKeys > 0) {
            return true;
        }
    }
    return Math.abs(at[0] - anchor[0]) > 1e-6 || Math.abs(at[1] - anchor[1]) > 1e-6 ||
        Math.abs(scale[0] - 100) > 1e-6 || Math.abs(scale[1] - 100) > 1e-6 ||
        Math.abs(group.property("ADBE Rotate Z").value) > 1e-6;
}

function rotopaintMaskRow(comp, mask) {
    var feather = mask.property("ADBE Mask Feather");
    var grow = mask.property("ADBE Mask Offset");
    return {
        name: mask.name,
        inverted: mask.inverted,
        mode: rotopaintMode(mask.maskMode),
        linear: mask.maskFeatherFalloff === MaskFeatherFalloff.FFO_LINEAR,
        feather: feather.numKeys > 0 ? feather.keyValue(1) : feather.value,
        expansion: grow.numKeys > 0 ? grow.keyValue(1) : grow.value,
        animated: feather.numKeys > 0 || grow.numKeys > 0,
        opacity: rotopaintOpacity(comp, mask.property("ADBE Mask Opacity")),
        keys: rotopaintPathKeys(comp, mask.property("ADBE Mask Shape"))
    };
}

function rotopaintMode(mode) {
    var names = ["NONE", "ADD", "SUBTRACT", "INTERSECT", "LIGHTEN", "DARKEN", "DIFFERENCE"];
    for (var i = 0; i < names.length; i++) {
        if (MaskMode[names[i]] === mode) {
            return names[i];
        }
    }
    return "ADD";
}

function rotopaintFrame(comp, time) {
    return time / comp.frameDuration + Math.round(comp.displayStartTime / comp.frameDuration);
}

// [frame, percent, kind]; kind is "hold" or "eased".
function rotopaintOpacity(comp, property) {
    if (property.numKeys === 0) {
        return property.value === 100 ? [] : [[null, property.value, "hold"]];
    }
    var rows = [];
    for (var i = 1; i <= property.numKeys; i++) {
        var kind = property.keyOutInterpolationType(i) === KeyframeInterpolationType.HOLD ? "hold" : "eased";
        rows.push([rotopaintFrame(comp, property.keyTime(i)), property.keyValue(i), kind]);
    }
    return rows;
}

// [frame, kind, points, closed, how many feather points, each as [segment, share of it, radius]]; kind is "hold", "linear", or "eased" for a frame between two keys.
function rotopaintPathKeys(comp, path) {
    if (path.numKeys === 0) {
        return [rotopaintKey(null, "linear", path.value)];
    }
    var rows = [];
    for (var i = 1; i <= path.numKeys; i++) {
        var leaves = path.keyOutInterpolationType(i);
        var kind = leaves === KeyframeInterpolationType.HOLD ? "hold" : "linear";
        rows.push(rotopaintKey(rotopaintFrame(comp, path.keyTime(i)), kind, path.keyValue(i)));
        if (i < path.numKeys && kind !== "hold") {
            var arrives = path.keyInInterpolationType(i + 1);
            if (leaves !== KeyframeInterpolationType.LINEAR || arrives === KeyframeInterpolationType.BEZIER) {
                rotopaintBetween(comp, path, path.keyTime(i), path.keyTime(i + 1), rows);
            }
        }
    }
    return rows;
}

function rotopaintBetween(comp, path, begin, end, rows) {
    var first = Math.floor(begin / comp.frameDuration + 1e-6) + 1;
    var last = Math.ceil(end / comp.frameDuration - 1e-6) - 1;
    for (var index = first; index <= last; index++) {
        var time = index * comp.frameDuration;
        rows.push(rotopaintKey(rotopaintFrame(comp, time), "eased", path.valueAtTime(time, false)));
    }
}

function rotopaintKey(frame, kind, shape) {
    var points = [];
    for (var i = 0; i < shape.vertices.length; i++) {
        points.push([
            shape.vertices[i][0], shape.vertices[i][1],
            shape.inTangents[i][0], shape.inTangents[i][1],
            shape.outTangents[i][0], shape.outTangents[i][1]
        ]);
    }
    var feathered = shape.featherSegLocs ? shape.featherSegLocs.length : 0;
    var rows = [];
    for (var k = 0; k < feathered; k++) {
        rows.push([shape.featherSegLocs[k], shape.featherRelSegLocs[k], shape.featherRadii[k]]);
    }
    return [frame, kind, points, shape.closed, feathered, rows];
}

// Old versions have no JSON object.
function rotopaintText(value) {
    if (value === null || value === undefined) {
        return "null";
    }
    if (typeof value === "number") {
        return isFinite(value) ? String(value) : "null";
    }
    if (typeof value === "boolean") {
        return value ? "true" : "false";
    }
    if (typeof value === "string") {
        return rotopaintQuoted(value);
    }
    var parts = [];
    if (value instanceof Array) {
        for (var i = 0; i < value.length; i++) {
            parts.push(rotopaintText(value[i]));
        }
        return "[" + parts.join(",") + "]";
    }
    for (var name in value) {
        parts.push(rotopaintQuoted(name) + ":" + rotopaintText(value[name]));
    }
    return "{" + parts.join(",") + "}";
}

function rotopaintQuoted(text) {
    var quoted = '"';
    for (var i = 0; i < text.length; i++) {
        var code = text.charCodeAt(i);
        if (code === 34 || code === 92) {
            quoted += "\\" + text.charAt(i);
        } else if (code < 32 || code > 126) {
            quoted += "\\u" + ("000" + code.toString(16)).slice(-4);
        } else {
            quoted += text.charAt(i);
        }
    }
    return quoted + '"';
}

function rotopaintSave() {
    var comp = app.project.activeItem;
    if (!(comp instanceof CompItem)) {
        alert("RotoPaint: open the composition whose masks shall be written.");
        return;
    }
    var file = File.saveDialog("Write masks for RotoPaint AI", "*.ae.json");
    if (!file) {
        return;
    }
    file.encoding = "UTF-8";
    if (!file.open("w")) {
        alert("RotoPaint: " + file.fsName + " cannot be written.");
        return;
    }
    file.write(rotopaintText(rotopaintDump(comp)));
    file.close();
}

rotopaintSave();
