"""Edits by a key or a menu: each acts on the selection, in one undo step, and answers whether anything was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.shapes import edit_frames, edit_tangents
from rotopaint_ai.shapes.edit import set_seam
from rotopaint_ai.shapes.edit_frames import Carry
from rotopaint_ai.shapes.edit_transform import moved, transform
from rotopaint_ai.shapes.roto import Interpolation, RotoDocument
from rotopaint_ui.tools import crop_acts as crop
from rotopaint_ui.tools import landmark_acts as landmarks
from rotopaint_ui.tools.hand import Hand
from rotopaint_ui.tools.points import delete_points

Act = Callable[[Hand], bool]
FEATHER_STEP_PX = 1.0


def nudge(hand: Hand, dx: float, dy: float) -> bool:
    """Move the selected points by plate pixels, the whole shape where none is selected.

    With their tools landmarks or the crop box.

    Nudges one after the other are one step.
    """
    if hand.takes == "landmarks":
        return landmarks.nudge(hand, dx, dy)
    if hand.takes == "crop":
        return crop.nudge(hand, dx, dy)
    shape, chosen = hand.shape, hand.chosen
    if shape is None or not shape.keys or not hand.is_free:
        return False
    x, y = hand.nudge("nudge", dx, dy, (hand.session.frame, shape.name, chosen, hand.reach))
    hand.preview(shape.name, lambda points: transform(points, moved(x, y), chosen))
    return True


def smooth(hand: Hand) -> bool:
    """Tangents along the neighbours."""
    shape, chosen = hand.shape, hand.chosen
    closed = shape is not None and shape.closed
    return hand.act("smooth points", lambda points: edit_tangents.smooth(points, chosen, closed))


def cusp(hand: Hand) -> bool:
    """Corners."""
    chosen = hand.chosen
    return hand.act("cusp points", lambda points: edit_tangents.cusp(points, chosen))


def join(hand: Hand) -> bool:
    """Broken tangents in one line again."""
    chosen = hand.chosen
    return hand.act("join tangents", lambda points: edit_tangents.join(points, chosen))


def mirror(hand: Hand) -> bool:
    """Tangents in one line and of one length."""
    chosen = hand.chosen
    return hand.act("mirror tangents", lambda points: edit_tangents.mirror(points, chosen))


def delete(hand: Hand) -> bool:
    """Take the selected points away, with its tool the crop box; never the whole shape, never a landmark."""
    if hand.takes == "crop":
        return crop.delete(hand)
    if hand.takes == "landmarks":
        hand.session.say("Landmarks are the sheet's: none can be taken away. Move it where it belongs")
        return False
    return delete_points(hand, hand.session.selection.points & frozenset(range(len(hand.points))))


def select_all(hand: Hand) -> bool:
    """All points of the selected shape, or all landmarks."""
    if hand.takes == "landmarks":
        return landmarks.select_all(hand)
    hand.session.select(hand.session.selection.shape, frozenset(range(len(hand.points))))
    return bool(hand.points)


def select_none(hand: Hand) -> bool:
    """No point; then no shape. With their tool, no landmark."""
    if hand.takes == "landmarks":
        return landmarks.select_none(hand)
    session = hand.session
    had = session.selection.shape is not None
    session.select(session.selection.shape if session.selection.points else None)
    return had


def select_next(hand: Hand, step: int) -> bool:
    """The next shape in the order of the document that can be taken hold of; with their tool, the next landmark."""
    if hand.takes == "landmarks":
        return landmarks.select_next(hand, step)
    document = hand.session.document
    names = [shape.name for shape in document.shapes if hand.can_grab(shape)] if document is not None else []
    if not names:
        return False
    own = hand.session.selection.shape
    hand.session.select(names[(names.index(own) + step) % len(names)] if own in names else names[0])
    return True


def feather(hand: Hand, by: float | None) -> bool:
    """Soften the selected shape by some pixels more; None takes its softness away. Seams keep it as a setting."""
    shape = hand.shape
    if shape is None or not hand.is_free:
        return False
    width = 0.0 if by is None else min(max(shape.feather_px + by, 0.0), MOST_WIDTH_PX)
    if shape.role == "seam":
        hand.session.set_seam(shape.name, replace(hand.session.seam(shape.name), feather_px=width))
        return True
    return hand.put("feather", lambda document: set_seam(document, shape.name, feather_px=width))


# --- keys -------------------------------------------------------------------------------------------------------------


def copy(hand: Hand) -> bool:
    """Remember the selected shape, or all shapes where none is selected, as they stand at this frame."""
    document, frame = hand.session.document, hand.session.frame
    shapes = [shape for shape in (document.shapes if document is not None else ()) if shape.keys]
    own = hand.session.shape
    hand.copied = {shape.name: shape.at(frame) for shape in ([own] if own is not None and own.keys else shapes)}
    hand.session.say(f"Copied {_count(len(hand.copied), 'key')} of frame {frame}")
    return bool(hand.copied)


def paste(hand: Hand, *, is_relative: bool) -> bool:
    """Put what was copied on this frame, its hold and the keys that edits reach: where it was or where the shape is."""
    document = hand.session.document
    if document is None or not hand.copied:
        hand.session.say("Nothing was copied yet")
        return False
    shapes = [shape for shape in document.shapes if shape.name in hand.copied and hand.can_grab(shape)]
    held = hand.session.held_frames()

    def pasted(document: RotoDocument) -> RotoDocument:
        for shape in shapes:
            frames = set(held)
            if hand.reach is not None:
                frames |= set(edit_frames.keys_in(shape, hand.reach.first, hand.reach.last))
            points = hand.copied[shape.name]
            document = edit_frames.paste(document, shape.name, points, sorted(frames), is_relative=is_relative)
        return document

    return bool(shapes) and hand.put("paste key" if len(shapes) == 1 else "paste keys", pasted)


def set_key(hand: Hand) -> bool:
    """Key the selected shape (all shapes where none is selected) by hand, as it stands."""
    names = _names(hand)
    frames = hand.session.held_frames()
    return bool(names) and hand.put("set key", lambda document: edit_frames.set_keys(document, names, frames))


def delete_key(hand: Hand) -> bool:
    """Take the key here away (those that edits reach), of the selected shape or of all where none is selected."""
    names = _names(hand)
    frames = set(hand.session.held_frames())
    if hand.reach is not None:
        frames |= set(range(hand.reach.first, hand.reach.last + 1))
    return bool(names) and hand.put("delete key", lambda document: edit_frames.delete_keys(document, names, frames))


def go_on(hand: Hand, kind: Interpolation) -> bool:
    """Let the keys here hold, or go on in a straight line."""
    document, frame = hand.session.document, hand.session.frame
    first, last = (hand.reach.first, hand.reach.last) if hand.reach is not None else (frame, frame)
    shapes = [shape for shape in document.shapes if shape.name in _names(hand)] if document is not None else []
    keys = {shape.name: edit_frames.keys_in(shape, min(first, frame), max(last, frame)) for shape in shapes}
    if not any(keys.values()):
        hand.session.say(f"No key at frame {frame}: set one first")
        return False

    def set_all(document: RotoDocument) -> RotoDocument:
        for name, frames in keys.items():
            document = edit_frames.set_interpolation(document, name, frames, kind)
        return document

    return hand.put("hold keys" if kind == "hold" else "linear keys", set_all)


def reach(hand: Hand, mode: Carry) -> bool:
    """Let edits reach every key of the range (of the shot where there is none), or stop it."""
    if hand.session.plate is None:
        return False
    hand.mode = None if hand.mode == mode else mode
    far = hand.reach
    where = "off" if far is None else f"on: every key of {far.first}-{far.last}, {mode}"
    hand.session.say(f"Multi-frame edit {where}")
    return True


def _names(hand: Hand) -> list[str]:
    document, own = hand.session.document, hand.shape
    if own is not None:
        return [own.name]
    if document is None or hand.session.selection.shape is not None:
        return []
    return [shape.name for shape in document.shapes if shape.keys and hand.can_grab(shape)]


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


_WAYS = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0)}
_STEPS = {"": 1.0, "_fine": 0.1, "_far": 10.0}

ACTS: Mapping[str, Act] = {
    **{
        f"nudge_{way}{step}": partial(nudge, dx=dx * px, dy=dy * px)
        for way, (dx, dy) in _WAYS.items()
        for step, px in _STEPS.items()
    },
    "smooth": smooth,
    "cusp": cusp,
    "join": join,
    "mirror": mirror,
    "delete": delete,
    "select_all": select_all,
    "select_none": select_none,
    "next_shape": partial(select_next, step=1),
    "previous_shape": partial(select_next, step=-1),
    "feather_more": partial(feather, by=FEATHER_STEP_PX),
    "feather_none": partial(feather, by=None),
    "copy_key": copy,
    "paste_key": partial(paste, is_relative=False),
    "paste_key_relative": partial(paste, is_relative=True),
    "set_key": set_key,
    "delete_key": delete_key,
    "hold": partial(go_on, kind="hold"),
    "linear": partial(go_on, kind="linear"),
    "ripple": partial(reach, mode="relative"),
    "overwrite": partial(reach, mode="absolute"),
}
