// After Effects as far as the scripts use it, by Adobe's scripting guide: names that it does not know are errors.

var MaskMode = { NONE: 1, ADD: 2, SUBTRACT: 3, INTERSECT: 4, LIGHTEN: 5, DARKEN: 6, DIFFERENCE: 7 };
var MaskFeatherFalloff = { FFO_SMOOTH: 1, FFO_LINEAR: 2 };
var KeyframeInterpolationType = { LINEAR: 1, BEZIER: 2, HOLD: 3 };
var alerts = [];
var written = {};

function alert(text) { alerts.push(text); }

function Shape() {
    this.vertices = [];
    this.inTangents = [];
    this.outTangents = [];
    this.closed = true;
    this.featherSegLocs = [];
}

function Property(value) {
    this.value = value;
    this.keys = [];
    this.numKeys = 0;
}
Property.prototype.setValue = function (value) {
    if (this.keys.length) { throw new Error("setValue on a keyed property"); }
    this.value = value;
};
Property.prototype.setValueAtTime = function (time, value) {
    for (var i = 0; i < this.keys.length; i++) {
        if (Math.abs(this.keys[i].time - time) < 1e-9) { this.keys[i].value = value; return; }
    }
    this.keys.push({ time: time, value: value, enters: KeyframeInterpolationType.LINEAR, leaves: KeyframeInterpolationType.LINEAR });
    this.keys.sort(function (a, b) { return a.time - b.time; });
    this.numKeys = this.keys.length;
};
Property.prototype.setValuesAtTimes = function (times, values) {
    if (times.length !== values.length) { throw new Error("times and values differ in number"); }
    for (var i = 0; i < times.length; i++) { this.setValueAtTime(times[i], values[i]); }
};
Property.prototype.at = function (index) {
    if (index < 1 || index > this.keys.length) { throw new Error("no key " + index); }
    return this.keys[index - 1];
};
Property.prototype.setInterpolationTypeAtKey = function (index, enters, leaves) {
    this.at(index).enters = enters;
    this.at(index).leaves = leaves;
};
Property.prototype.keyTime = function (index) { return this.at(index).time; };
Property.prototype.keyValue = function (index) { return this.at(index).value; };
Property.prototype.keyInInterpolationType = function (index) { return this.at(index).enters; };
Property.prototype.keyOutInterpolationType = function (index) { return this.at(index).leaves; };
// Eased here means a smooth step between two keys.
Property.prototype.valueAtTime = function (time) {
    for (var i = 1; i < this.keys.length; i++) {
        var a = this.keys[i - 1], b = this.keys[i];
        if (time >= a.time && time <= b.time) {
            var u = (time - a.time) / (b.time - a.time);
            u = u * u * (3 - 2 * u);
            var shape = new Shape();
            shape.closed = a.value.closed;
            for (var k = 0; k < a.value.vertices.length; k++) {
                shape.vertices.push(mixed(a.value.vertices[k], b.value.vertices[k], u));
                shape.inTangents.push(mixed(a.value.inTangents[k], b.value.inTangents[k], u));
                shape.outTangents.push(mixed(a.value.outTangents[k], b.value.outTangents[k], u));
            }
            return shape;
        }
    }
    return this.value;
};
function mixed(a, b, u) { return [a[0] + (b[0] - a[0]) * u, a[1] + (b[1] - a[1]) * u]; }

function Group(properties) { this.properties = properties; }
Group.prototype.property = function (name) {
    if (!this.properties[name]) { throw new Error("no property " + name); }
    return this.properties[name];
};

function Mask() {
    Group.call(this, {
        "ADBE Mask Shape": new Property(new Shape()),
        "ADBE Mask Feather": new Property([0, 0]),
        "ADBE Mask Opacity": new Property(100),
        "ADBE Mask Offset": new Property(0)
    });
    this.name = "Mask 1";
    this.inverted = false;
    this.maskMode = MaskMode.ADD;
    this.maskFeatherFalloff = MaskFeatherFalloff.FFO_SMOOTH;
}
Mask.prototype = Object.create(Group.prototype);

function Parade() { this.masks = []; this.numProperties = 0; }
Parade.prototype.addProperty = function (name) {
    if (name !== "ADBE Mask Atom") { throw new Error("no property " + name); }
    this.masks.push(new Mask());
    this.numProperties = this.masks.length;
    return this.masks[this.masks.length - 1];
};
Parade.prototype.property = function (index) { return this.masks[index - 1]; };

function Layer(name, width, height, aspect) {
    this.name = name;
    this.width = width;
    this.height = height;
    this.source = { pixelAspect: aspect };
    this.parade = new Parade();
    this.transform = new Group({
        "ADBE Position": new Property([width / 2, height / 2]),
        "ADBE Anchor Point": new Property([width / 2, height / 2]),
        "ADBE Scale": new Property([100, 100]),
        "ADBE Rotate Z": new Property(0)
    });
}
Layer.prototype.property = function (name) {
    if (name === "ADBE Mask Parade") { return this.parade; }
    if (name === "ADBE Transform Group") { return this.transform; }
    throw new Error("no property " + name);
};

function CompItem(name, width, height, aspect, duration, rate) {
    this.name = name;
    this.width = width;
    this.height = height;
    this.pixelAspect = aspect;
    this.duration = duration;
    this.frameRate = rate;
    this.frameDuration = 1 / rate;
    this.displayStartTime = 0;
    this.selectedLayers = [];
    this.numLayers = 0;
    var comp = this;
    this.all = [];
    this.layers = {
        addSolid: function (colour, title, w, h, par) {
            comp.all.push(new Layer(title, w, h, par));
            comp.numLayers = comp.all.length;
            return comp.all[comp.all.length - 1];
        }
    };
}
CompItem.prototype.layer = function (index) { return this.all[index - 1]; };

var app = {
    undo: 0,
    beginUndoGroup: function () { this.undo += 1; },
    endUndoGroup: function () { this.undo -= 1; },
    project: {
        activeItem: null,
        items: {
            addComp: function (name, width, height, aspect, duration, rate) {
                app.project.activeItem = new CompItem(name, width, height, aspect, duration, rate);
                return app.project.activeItem;
            }
        }
    }
};

var File = {
    saveDialog: function () {
        return {
            fsName: "masks.ae.json",
            open: function () { return true; },
            write: function (text) { written.text = text; },
            close: function () {}
        };
    }
};
