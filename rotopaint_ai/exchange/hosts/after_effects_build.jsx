// Builds animated masks in After Effects from the data above: File > Scripts > Run Script File.
// With a composition open and one layer of the shot's size selected, the masks go onto that layer; else a solid is made.

function rotopaintBuild(shot) {
    app.beginUndoGroup("RotoPaint masks");
    try {
        var comp = rotopaintComp(shot);
        var layer = rotopaintLayer(comp, shot);
        for (var i = 0; i < shot.masks.length; i++) {
            rotopaintMask(layer, comp, shot, shot.masks[i]);
        }
        return layer;
    } finally {
        app.endUndoGroup();
    }
}

function rotopaintComp(shot) {
    var active = app.project.activeItem;
    if (active instanceof CompItem) {
        return active;
    }
    var frames = shot.last_frame - shot.first_frame + 1;
    var comp = app.project.items.addComp(
        "RotoPaint", shot.width, shot.height, shot.pixel_aspect, frames / shot.fps, shot.fps
    );
    comp.displayStartTime = shot.first_frame / shot.fps;
    return comp;
}

function rotopaintLayer(comp, shot) {
    var chosen = comp.selectedLayers;
    if (chosen.length === 1 && chosen[0].width === shot.width && chosen[0].height === shot.height) {
        return chosen[0];
    }
    if (comp.width !== shot.width || comp.height !== shot.height) {
        throw new Error(
            "RotoPaint: the shapes are made for " + shot.width + " x " + shot.height + ", the composition is " +
            comp.width + " x " + comp.height + ". Open one of the plate's size, or select the plate's layer."
        );
    }
    return comp.layers.addSolid([1, 1, 1], "RotoPaint", shot.width, shot.height, shot.pixel_aspect);
}

// A frame's time counts from the composition's first frame; one that is not numbered starts at the shot's first.
function rotopaintTime(comp, shot, frame) {
    var start = Math.round(comp.displayStartTime / comp.frameDuration);
    if (start <= 1) {
        start = shot.first_frame;
    }
    return (frame - start) * comp.frameDuration;
}

function rotopaintMask(layer, comp, shot, row) {
    var mask = layer.property("ADBE Mask Parade").addProperty("ADBE Mask Atom");
    mask.name = row.name;
    mask.maskMode = row.closed ? MaskMode[row.mode || "ADD"] : MaskMode.NONE;
    mask.maskFeatherFalloff = MaskFeatherFalloff.FFO_LINEAR;
    rotopaintKeys(mask.property("ADBE Mask Shape"), comp, shot, row);
    if (row.closed && row.feather > 0) {
        mask.property("ADBE Mask Feather").setValue([row.feather, row.feather]);
        mask.property("ADBE Mask Offset").setValue(row.feather / 2);
    }
    var opacity = mask.property("ADBE Mask Opacity");
    for (var i = 0; i < row.opacity.length; i++) {
        opacity.setValueAtTime(rotopaintTime(comp, shot, row.opacity[i][0]), row.opacity[i][1]);
        opacity.setInterpolationTypeAtKey(i + 1, KeyframeInterpolationType.HOLD, KeyframeInterpolationType.HOLD);
    }
}

function rotopaintKeys(path, comp, shot, row) {
    var times = [];
    var shapes = [];
    for (var i = 0; i < row.keys.length; i++) {
        times.push(rotopaintTime(comp, shot, row.keys[i][0]));
        shapes.push(rotopaintShape(row.keys[i][2], row.closed, row.keys[i][5]));
    }
    path.setValuesAtTimes(times, shapes);
    for (var k = 0; k < row.keys.length; k++) {
        var before = k > 0 && row.keys[k - 1][1];
        path.setInterpolationTypeAtKey(
            k + 1,
            before ? KeyframeInterpolationType.HOLD : KeyframeInterpolationType.LINEAR,
            row.keys[k][1] ? KeyframeInterpolationType.HOLD : KeyframeInterpolationType.LINEAR
        );
    }
}

function rotopaintShape(points, closed, feather) {
    var shape = new Shape();
    var vertices = [];
    var incoming = [];
    var outgoing = [];
    for (var i = 0; i < points.length; i++) {
        vertices.push([points[i][0], points[i][1]]);
        incoming.push([points[i][2], points[i][3]]);
        outgoing.push([points[i][4], points[i][5]]);
    }
    shape.vertices = vertices;
    shape.inTangents = incoming;
    shape.outTangents = outgoing;
    shape.closed = closed;
    rotopaintFeather(shape, feather || []);
    return shape;
}

// A feather point at each vertex: its segment, where along it, and its radius outside the edge.
function rotopaintFeather(shape, rows) {
    var lists = {featherSegLocs: [], featherRelSegLocs: [], featherRadii: [], featherTypes: []};
    var plain = {featherInterps: [], featherTensions: [], featherRelCornerAngles: []};
    for (var i = 0; i < rows.length; i++) {
        lists.featherSegLocs.push(rows[i][0]);
        lists.featherRelSegLocs.push(rows[i][1]);
        lists.featherRadii.push(rows[i][2]);
        lists.featherTypes.push(rows[i][2] < 0 ? 1 : 0);
        plain.featherInterps.push(0);
        plain.featherTensions.push(0);
        plain.featherRelCornerAngles.push(0);
    }
    if (rows.length > 0) {
        for (var name in lists) {
            shape[name] = lists[name];
        }
        for (var other in plain) {
            shape[other] = plain[other];
        }
    }
}

rotopaintBuild(ROTOPAINT);
