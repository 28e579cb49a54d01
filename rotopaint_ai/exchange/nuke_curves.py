"""A parser for the `curves` knob of Nuke's Roto and RotoPaint nodes: the whole grammar, nothing guessed.

Standard library only. Anything outside the grammar raises DocumentError, which names the place.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_views
from rotopaint_ai.exchange.limits import refuse_text, short_value
from rotopaint_ai.exchange.nuke_tree import (
    KINDS,
    LARGEST,
    Attributes,
    CurveKey,
    CurvePoint,
    CurvesTree,
    NukeCubic,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeStroke,
    NukeTransform,
    Times,
)
from rotopaint_ai.exchange.nuke_words import nest, unfold

_PLAIN = {"0": "00000000", "1": "3f800000"}
_UNPACK = struct.Struct(">f").unpack  # NUM is `x` and eight digits, big-endian
_MAX_REPEAT = 1_000_000
_MOST_RUN_KEYS = 3_000_000


def parse_curves(text: str, *, where: str = "curves") -> CurvesTree:
    """The tree in a `curves` value (the text between its outer braces). Raises DocumentError."""
    if is_nuke6(text):
        raise DocumentError(f"{where}: written by Nuke 6; open and save the script in Nuke 7 or later")
    has_runs = "{r" in text
    lists = nest(text, where, folded=not has_runs)
    if has_runs:
        _check_runs(lists, where)
    try:
        return _tree(lists, where)
    except RecursionError as error:
        raise DocumentError(f"{where}: layers are nested too deeply to read; flatten them in Nuke") from error


def _tree(lists: list[Any], where: str) -> CurvesTree:
    if len(lists) != 1 or not isinstance(lists[0], list) or len(lists[0]) != 3:
        refuse_text(where, f"holds {len(lists)} blocks; wanted version, flags and layers in one")
    version, flags, layers = lists[0]
    _expect(version, "v", 2, where)
    _expect(flags, "f", 2, where)
    _expect(layers, "n", 2, where)
    return CurvesTree(_parse_number(version[1], where), _parse_integer(flags[1], where), _parse_layer(layers[1], where))


def _check_runs(lists: list[Any], where: str) -> None:
    """Refuse run lengths that expand to more keys than any shot has, before they fill the memory."""
    total, todo = 0, [lists]
    while todo:
        block = todo.pop()
        todo += [each for each in block if isinstance(each, list)]
        if len(block) == 2 and block[0] == "r" and isinstance(block[1], list):
            runs = [run for run in block[1] if isinstance(run, list) and len(run) == 2]
            total += sum(_parse_count(run[1], where) for run in runs)
            if total > _MOST_RUN_KEYS:
                refuse_text(where, f"run lengths expand to more than {_MOST_RUN_KEYS:,} keys; the file may be damaged")


def _parse_layer(block: Any, where: str) -> NukeLayer:
    _expect(block, "layer", None, where)
    if len(block) < 5:
        refuse_text(where, f"layer with {len(block)} words; wanted name, flags, transform, attributes")
    name = _parse_name(block[1], where)
    where = f"{where}: {name[:60]}"
    return NukeLayer(
        name,
        _flags(block[2], where),
        _parse_transform(block[3], where),
        _parse_attributes(block[4], where),
        tuple(_parse_element(each, where) for each in block[5:]),
    )


def _parse_element(block: Any, where: str) -> NukeLayer | NukeShape | NukeStroke:
    kind = block[0] if isinstance(block, list) and block else block
    if kind == "layer":
        return _parse_layer(block, where)
    if kind == "curvegroup":
        return _parse_shape(block, where)
    if kind == "cubiccurve":
        return _parse_stroke(block, where)
    refuse_text(where, f"element {short_value(kind)}; wanted layer, curvegroup or cubiccurve")


def _parse_shape(block: list[Any], where: str) -> NukeShape:
    if len(block) != 7 or not isinstance(block[4], list) or len(block[4]) != 2:
        refuse_text(
            where, f"curvegroup {short_value(block[1:2])} does not hold outline, feather, transform and attributes"
        )
    name = _parse_name(block[1], where)
    where = f"{where}/{name[:60]}"
    outline, feather = block[4]
    return NukeShape(
        name,
        _parse_integer(block[2], where),
        _parse_kind(block[3], where),
        _cubic_block(outline, where),
        None if feather == "idem" else _cubic_block(feather, where),
        _parse_transform(block[5], where),
        _parse_attributes(block[6], where),
    )


def _parse_stroke(block: list[Any], where: str) -> NukeStroke:
    if len(block) != 7:
        refuse_text(where, f"cubiccurve {short_value(block[1:2])} does not hold points, transform and attributes")
    name = _parse_name(block[1], where)
    where = f"{where}/{name[:60]}"
    return NukeStroke(
        name,
        _parse_integer(block[2], where),
        _parse_kind(block[3], where),
        _cubic_block(block[4], where),
        _parse_transform(block[5], where),
        _parse_attributes(block[6], where),
    )


def _cubic_block(block: Any, where: str) -> NukeCubic:
    _expect(block, "cc", 3, where)
    flags, points = _flags(block[1], where), block[2]
    if not isinstance(points, list) or not points or points[0] not in ("p", "px"):
        refuse_text(where, f"points {short_value(points)}; wanted p or px")
    if points[0] == "p":
        return NukeCubic(flags, None, tuple(_parse_point(each, None, where) for each in points[1:]))
    if len(points) < 2:
        refuse_text(where, "px without key times")
    times = _parse_times(points[1], where)
    rows = points[:1:-1]
    del points[2:]  # frees each block as soon as it is parsed
    return NukeCubic(
        flags, times, tuple(_parse_point(unfold(rows.pop(), where), times, where) for _ in range(len(rows)))
    )


def _parse_point(block: Any, times: Times | None, where: str) -> CurvePoint:
    if not isinstance(block, list):
        refuse_text(where, f"point {short_value(block)}; wanted a list of components")
    attributes: Attributes = ()
    if block and isinstance(block[0], list) and block[0] and block[0][0] == "a":
        attributes = _parse_attributes(block[0], where)
        block = block[1:]
    if len(block) > 3:
        refuse_text(where, f"point with {len(block)} components; wanted at most 3")
    return CurvePoint(tuple(_component(each, times, where) for each in block), attributes)


def _component(block: Any, times: Times | None, where: str) -> NukeCurve:
    return _parse_curve(block, where) if times is None else _shared_curve(block, times, where)


def _parse_transform(block: Any, where: str) -> NukeTransform:
    if not isinstance(block, list) or not block or block[0] not in ("t", "tx"):
        refuse_text(where, f"transform {short_value(block)}; wanted t or tx")
    times: Times | None = None
    values = block[1:]
    if block[0] == "tx":
        if not values:
            refuse_text(where, "tx without key times")
        times, values = _parse_times(values[0], where), values[1:]
    if len(values) > 35:
        refuse_text(where, f"transform with {len(values)} components; wanted at most 35")
    return NukeTransform(times, tuple(_component(each, times, where) for each in values))


def _parse_attributes(block: Any, where: str) -> Attributes:
    _expect(block, "a", None, where)
    if len(block) % 2 == 0:
        refuse_text(where, f"attributes {short_value(block[1:])} are not pairs of name and value")
    return tuple(
        (_parse_name(name, where), _parse_curve(value, f"{where}: {str(name)[:60]}"))
        for name, value in zip(block[1::2], block[2::2])
    )


def _parse_curve(block: Any, where: str) -> NukeCurve:
    if isinstance(block, str):
        return NukeCurve(_parse_number(block, where))
    if not block:
        refuse_text(where, "an empty curve")
    first = block[0]
    if isinstance(first, str) and first.lstrip('"').startswith("="):
        return _expression(block, where, lambda inner: _parse_curve(inner, where))
    if first == "r" and len(block) == 2:
        return NukeCurve(keys=_parse_runs(block, where))
    of_views = nuke_views.split(block)
    if of_views is not None:
        return replace(_parse_curve(of_views[0], where), views=of_views[1])
    return NukeCurve(keys=_parse_keys(block, where))


def _expression(block: list[Any], where: str, inner: Any) -> NukeCurve:
    if len(block) > 2:
        refuse_text(where, f"expression {short_value(block[0])} with {len(block) - 1} values; wanted at most one")
    cached = inner(block[1]) if len(block) == 2 else NukeCurve()
    return NukeCurve(cached.constant, cached.keys, block[0], len(block) == 1)


def _parse_keys(block: list[Any], where: str) -> tuple[CurveKey, ...]:
    keys: list[CurveKey] = []
    for each in block:
        keys.append(_parse_key(each, keys[-1].value if keys else None, where))
    return _check_key_times(keys, where)


def _parse_runs(block: list[Any], where: str) -> tuple[CurveKey, ...]:
    if len(block) != 2 or not isinstance(block[1], list):
        refuse_text(where, f"run {short_value(block)}; wanted r and a list of keys with counts")
    keys: list[CurveKey] = []
    for run in block[1]:
        if not isinstance(run, list) or len(run) != 2:
            refuse_text(where, f"run {short_value(run)}; wanted a key and a count")
        key = _parse_key(run[0], keys[-1].value if keys else None, where)
        keys.extend(key._replace(time=key.time + i) for i in range(_parse_count(run[1], where)))
    return _check_key_times(keys, where)


def _parse_key(block: Any, before: float | None, where: str) -> CurveKey:
    if not isinstance(block, list) or not block:
        refuse_text(where, f"key {short_value(block)}; wanted {{frame value ...}}")
    time = _parse_number(block[0], where)
    if len(block) == 1:
        if before is None:
            refuse_text(where, f"the first key, at {time:g}, has no value")
        return CurveKey(time, before)
    return _key_with_tail(time, block[1:], where)


def _key_with_tail(time: float, words: list[Any], where: str) -> CurveKey:
    """A key from its value and tail: no tail is a step, `-` is flat, four numbers are slopes and weights.

    An integer after the value, or after the four numbers, is the interpolation code.
    """
    if len(words) == 6 or (len(words) == 2 and words[1] != "-"):
        return _parse_coded_key(_key_with_tail(time, words[:-1], where), words[-1], where)
    if len(words) == 1:
        return CurveKey(time, _parse_number(words[0], where))
    if len(words) == 2 and words[1] == "-":
        return CurveKey(time, _parse_number(words[0], where), step=False)
    if len(words) == 5:
        value, left, left_weight, right, right_weight = (_parse_number(word, where) for word in words)
        return CurveKey(time, value, left, left_weight, right, right_weight, False)
    refuse_text(
        where, f"key {short_value(words)} at {time:g}; wanted a value, a value and -, or a value with four numbers"
    )


def _parse_coded_key(key: CurveKey, word: Any, where: str) -> CurveKey:
    """A key with an interpolation code, whose low byte is 0 for step, 1 for linear, 2 for cubic."""
    code = _parse_integer(word, f"{where}: interpolation at {key.time:g}")
    if not 0 <= code <= 0xFFFF or code & 255 > 2:
        refuse_text(where, f"key at {key.time:g} says interpolation {code}; wanted step (0), linear (1) or cubic (2)")
    return key._replace(step=code & 255 == 0, code=code)


def _check_key_times(keys: list[CurveKey], where: str) -> tuple[CurveKey, ...]:
    for before, after in pairwise(keys):
        if after.time <= before.time:
            refuse_text(where, f"key at {after.time:g} follows the key at {before.time:g}; times must increase")
    return tuple(keys)


def _shared_curve(block: Any, times: Times, where: str) -> NukeCurve:
    if isinstance(block, str):
        value = _parse_number(block, where)
        return NukeCurve(keys=(CurveKey(times[0], value),)) if len(times) == 1 else NukeCurve(value)
    if not block:
        refuse_text(where, "an empty curve")
    if isinstance(block[0], str) and block[0].lstrip('"').startswith("="):
        return _expression(block, where, lambda inner: _shared_curve(inner, times, where))
    quick = _plain_keys(block, times)
    if quick is not None:
        return NukeCurve(keys=quick)
    of_views = nuke_views.split(block)
    if of_views is not None:
        return replace(_shared_curve(of_views[0], times, where), views=of_views[1])
    items: list[list[Any]] = []
    for each in block:
        items.extend(_items(each, where))
        if len(items) > len(times):
            refuse_text(where, f"more values than the {len(times)} key times")
    if len(items) == 1:
        items = items * len(times)
    if len(items) != len(times):
        refuse_text(where, f"{len(items)} values for {len(times)} key times")
    return NukeCurve(keys=tuple(_key_with_tail(time, item, where) for time, item in zip(times, items)))


def _plain_keys(block: list[Any], times: Times) -> tuple[CurveKey, ...] | None:
    """Keys of the common form, five numbers at each time, parsed at once; None for other forms."""
    if len(block) != len(times) or not all(item.__class__ is list and len(item) == 5 for item in block):
        return None
    try:
        digits = [w[1:] if len(w) == 9 and w[0] == "x" else _PLAIN[w] for item in block for w in item]
        n = struct.unpack(f">{len(digits)}f", bytes.fromhex("".join(digits)))
    except (KeyError, TypeError, ValueError, struct.error):
        return None
    if sum(n) - sum(n) != 0.0:  # a number is not finite
        return None
    left, right = n[1::5], n[3::5]
    if digits[6::5] == digits[3:-5:5]:  # linear: both slopes share one object
        left = (left[0], *right[:-1])
    before, after = (_share_numbers(n[at::5], digits[at::5]) for at in (2, 4))  # weights are usually 1
    five = zip(times, n[::5], left, before, right, after, repeat(False), repeat(None))
    return tuple(map(CurveKey._make, five))


def _share_numbers(values: tuple[float, ...], digits: list[str]) -> Iterable[float]:
    """The same values, sharing one object where all their digits are equal."""
    return repeat(values[0], len(values)) if digits.count(digits[0]) == len(digits) else values


def _items(block: Any, where: str, depth: int = 0) -> list[list[Any]]:
    if isinstance(block, str):
        return [[block]]
    if block and block[0] == "x":
        if len(block) != 3 or depth > 8:
            refuse_text(where, f"repeat {short_value(block)}; wanted x, a count and one value")
        repeated = _items(block[2], where, depth + 1)
        count = _parse_count(block[1], where)
        if count * len(repeated) > _MAX_REPEAT:
            refuse_text(where, f"{count} repeats; wanted at most {_MAX_REPEAT}")
        return repeated * count
    return [block]


def _parse_times(block: Any, where: str) -> Times:
    words = [block] if isinstance(block, str) else block
    if not words:
        refuse_text(where, "no key times")
    times = tuple(_parse_number(word, where) for word in words)
    for before, after in pairwise(times):
        if after <= before:
            refuse_text(where, f"key time {after:g} follows {before:g}; times must increase")
    return times


# --- words ------------------------------------------------------------------------------------------------------------


def _expect(block: Any, word: str, length: int | None, where: str) -> None:
    if not isinstance(block, list) or not block or block[0] != word or (length is not None and len(block) != length):
        refuse_text(where, f"found {short_value(block)}; wanted {{{word} ...}}")


def _parse_number(word: Any, where: str) -> float:
    if isinstance(word, str):
        try:
            if len(word) == 9 and word[0] == "x":
                value: float = _UNPACK(bytes.fromhex(word[1:]))[0]
            else:
                value = math.nan if "_" in word else float(word)
        except (ValueError, struct.error):
            value = math.nan
        if abs(value) <= LARGEST:
            return value
    refuse_text(where, f"found {short_value(word)}; wanted a number that fits 32 bits")


def _parse_integer(word: Any, where: str) -> int:
    if isinstance(word, str) and re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    refuse_text(where, f"found {short_value(word)}; wanted a whole number")


def _parse_count(word: Any, where: str) -> int:
    number = _parse_number(word, where)
    if number != int(number) or not 1 <= number <= _MAX_REPEAT:
        refuse_text(where, f"count {number:g}; wanted a whole number between 1 and {_MAX_REPEAT}")
    return int(number)


def _flags(block: Any, where: str) -> int:
    _expect(block, "f", 2, where)
    return _parse_integer(block[1], where)


def _parse_kind(word: Any, where: str) -> str:
    if word not in KINDS:
        refuse_text(where, f"curve type {short_value(word)}; wanted one of {', '.join(KINDS)}")
    return str(word)


def _parse_name(word: Any, where: str) -> str:
    if not isinstance(word, str):
        refuse_text(where, f"name {short_value(word)}; wanted a word")
    return word


def is_nuke6(text: str) -> bool:
    """Whether a `curves` value is from Nuke 6, which has another grammar."""
    return text.lstrip().startswith("AnimTree:")
