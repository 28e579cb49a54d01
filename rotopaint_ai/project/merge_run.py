"""Merging a run's shapes into a shot with a person's work: human keys are put back, frames outside the run are kept.

Pure functions from states and documents to new ones, used by the panel and by `rotopaint run --project`. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from rotopaint_ai.project.face_groups import with_face_grouped
from rotopaint_ai.project.state import Mark, SeamSettings, State, WidthProfile
from rotopaint_ai.shapes.group_moves import apply_groups
from rotopaint_ai.shapes.manual_keys import LandmarkRow, frames_corrected, with_manual_keys, without_manual_edits
from rotopaint_ai.shapes.merge import merge, only_frames
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, Key, RotoDocument, RotoShape, StrokeWidth, largest_move

RunFrames = Collection[int] | None  # the requested frames of a run; None: all


@dataclass(frozen=True, slots=True)
class EditedPredictions:
    """A run's predictions at places that a person edited: keys by shape and frame, landmarks by frame."""

    keys: Mapping[str, Mapping[int, Key]] = field(default_factory=dict)
    landmarks: Mapping[int, LandmarkRow] = field(default_factory=dict)


def merge_run(
    before: State,
    found: RotoDocument,
    asked: RunFrames,
    *,
    predicted: RotoDocument | None = None,
    edited: EditedPredictions | None = None,
) -> State:
    """The state after a run: the run's shapes, with the human keys, groups and seam settings of the state before.

    `predicted` is the models' prediction, where the caller knows it. Otherwise it is taken from `found`, and from
    `edited` where `found` holds people's work. A run of some frames only does not change the widths and feathers
    that apply to the whole shot.
    """
    by_hand = {} if before.document is None else frames_corrected(before.predicted, before.document)
    found = apply_groups(found, before.document, by_hand)
    if predicted is None:
        models_only = without_manual_edits(_with_carried_as_models(found, before))
        predicted = _without_followers(_of_the_face(models_only, before), before)
        predicted = _with_found(predicted, edited or EditedPredictions())
    from_models = predicted
    from_models = apply_groups(from_models, before.document)
    new = _among(before.document, found, asked)
    if before.document is not None:
        new = with_manual_keys(new, before.document, before.aside)
    document, predicted = with_seam_settings(new, before.seams), _among(before.predicted, from_models, asked)
    return with_face_grouped(replace(before, document=document, predicted=predicted))


SEEN_PX = 0.1  # a frame whose curves move by less counts as not moved


def standing_marks(before: State, after: RotoDocument) -> Mapping[int, Mark]:
    """The marks of a state's frames, without "accepted" where a shape has moved since, after corrections were carried
    on over a run, too."""
    earlier = {shape.name: shape.keys for shape in before.document.shapes} if before.document is not None else {}
    moved = {
        frame
        for shape in after.shapes
        for frame, key in shape.keys.items()
        if (old := earlier.get(shape.name, {}).get(frame)) is not None
        and old.points is not key.points
        and largest_move(old.points, key.points) >= SEEN_PX
    }
    return {frame: mark for frame, mark in before.marks.items() if mark != "accepted" or frame not in moved}


def partial_run_frames(frames: Collection[int], own: RotoDocument | None) -> RunFrames:
    """The frames of a run; None where it covers the whole shot."""
    if own is None or set(range(own.first_frame, own.last_frame + 1)) <= set(frames):
        return None
    return frames


def drawn_state(known: State, found: RotoDocument, asked: RunFrames) -> State:
    """The state that a run has painted: the run's shapes with the settings of `known`."""
    return replace(known, document=_among(known.document, found, asked))


def with_seam_settings(document: RotoDocument, seams: Mapping[str, SeamSettings]) -> RotoDocument:
    """A model's result with a person's seam settings."""
    shapes = tuple(
        seam_with_settings(each, each, seams[each.name]) if each.name in seams else each for each in document.shapes
    )
    return replace(document, shapes=shapes)


def seam_with_settings(shape: RotoShape, model: RotoShape, settings: SeamSettings) -> RotoShape:
    """A shape with a person's width, feather, taper and profile; values that the person left unset come from `model`.

    A width set by hand replaces the widths that the model gave to single keys.
    """
    new = replace(
        shape,
        width_px=model.width_px if settings.width_px is None else settings.width_px,
        feather_px=model.feather_px if settings.feather_px is None else settings.feather_px,
        taper=model.taper if settings.taper is None else settings.taper,
    )
    if shape.closed:
        return new
    if settings.profile is not None:
        return with_profile(new, settings.profile)
    return _with_widths_of_keys(new, model, by_hand=settings.width_px is not None)


def _with_widths_of_keys(shape: RotoShape, model: RotoShape, *, by_hand: bool) -> RotoShape:
    """An open shape with the model's widths in its keys, or without them where a width was set by hand.

    Widths that a person gave to a key stay. Human keys do not get the model's widths.
    """
    keys = dict(shape.keys)
    for frame, key in shape.keys.items():
        widths = model.keys[frame].widths if frame in model.keys else ()
        if widths and by_hand and key.widths == widths:
            keys[frame] = replace(key, widths=())
        elif widths and not by_hand and not key.widths and key.source != "human":
            keys[frame] = replace(key, widths=widths)
    return shape.with_keys(keys) if keys != shape.keys else shape


def with_profile(shape: RotoShape, profile: WidthProfile) -> RotoShape:
    """An open shape with a profile's widths at each control point, in every key.

    The width is even where the shape has another number of points than the profile.
    """
    half = (DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px) / 2
    is_even = len(profile) != shape.n_points
    rows = () if is_even else tuple(StrokeWidth(half * left, half * right, shape.feather_px) for left, right in profile)
    return shape.with_keys({frame: replace(key, widths=rows) for frame, key in shape.keys.items()})


def _of_the_face(from_models: RotoDocument, before: State) -> RotoDocument:
    """The models' prediction of the current face.

    Shapes of other faces are left out, although a run draws them too. So are shapes that people drew, which never had a
    key of a model."""
    models = _shapes_of_models(before)
    shapes = (s for s in from_models.shapes if s.name not in before.aside and (s.keys or s.name in models))
    return replace(from_models, shapes=tuple(shapes))


def _shapes_of_models(before: State) -> set[str]:
    return set() if before.predicted is None else {shape.name for shape in before.predicted.shapes if shape.keys}


def _with_carried_as_models(found: RotoDocument, before: State) -> RotoDocument:
    """A run's document with propagated corrections counted as predictions, for places that `edited` lacks."""
    models = _shapes_of_models(before)
    return replace(found, shapes=tuple(_all_of_models(s) if s.name in models else s for s in found.shapes))


def _all_of_models(shape: RotoShape) -> RotoShape:
    carried = {f: replace(key, source="model") for f, key in shape.keys.items() if key.source == "propagated"}
    return shape.with_keys({**shape.keys, **carried}) if carried else shape


def _without_followers(from_models: RotoDocument, before: State) -> RotoDocument:
    """Predictions without keys that only repeat what a person's landmark had moved before the run."""
    if before.document is None or before.predicted is None:
        return from_models
    followed = frames_corrected(before.predicted, before.document)
    shapes = (
        shape.with_keys({f: key for f, key in shape.keys.items() if f not in followed.get(shape.name, frozenset())})
        for shape in from_models.shapes
    )
    return replace(from_models, shapes=tuple(shapes))


def with_earlier_predictions(known: EditedPredictions, found: RotoDocument, before: RotoDocument) -> EditedPredictions:
    """Predictions of a resumed run; frames that it skipped keep their earlier ones."""
    model_rows = {shape.name: shape.keys for shape in before.shapes}
    keys: dict[str, dict[int, Key]] = {}
    for shape in found.shapes:
        own = model_rows.get(shape.name, {})
        earlier = {f: own[f] for f, key in shape.keys.items() if key.source != "model" and f in own}
        keys[shape.name] = {**earlier, **known.keys.get(shape.name, {})}
    frames = set(found.landmarks.hand).union(*keys.values())
    rows = {frame: before.landmarks.keys[frame] for frame in frames if frame in before.landmarks.keys}
    return EditedPredictions(keys, {**rows, **known.landmarks})


def _with_found(predicted: RotoDocument, edited: EditedPredictions) -> RotoDocument:
    shapes = []
    for shape in predicted.shapes:
        merged = {**shape.keys, **edited.keys.get(shape.name, {})}
        shapes.append(shape.with_keys({frame: merged[frame] for frame in sorted(merged)}))
    rows = {**predicted.landmarks.keys, **edited.landmarks}
    marks = replace(predicted.landmarks, keys={frame: rows[frame] for frame in sorted(rows)})
    return replace(predicted, shapes=tuple(shapes), landmarks=marks)


def _among(before: RotoDocument | None, found: RotoDocument, asked: RunFrames) -> RotoDocument:
    """The new frames of a run merged into the others; values of the whole shot (widths, feathers) stay."""
    if before is None or asked is None:
        return found
    new = merge(before, only_frames(found, asked), asked)
    old = {shape.name: shape for shape in before.shapes}
    kept = tuple(
        replace(shape, width_px=was.width_px, feather_px=was.feather_px, taper=was.taper)
        if (was := old.pop(shape.name, None)) is not None
        else shape
        for shape in new.shapes
    )
    return replace(new, shapes=(*kept, *old.values()))
