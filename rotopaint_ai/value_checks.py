"""Values of YAML and JSON files, checked and converted to frozen dataclasses; a wrong value gives a one-line error.

The dataclass is the schema: its annotations give the types of fields, its defaults tell which fields are optional.
`msgspec` does the checking. It is imported when the first file is read, so that importing modules with schemas is fast.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from rotopaint_ai.errors import RotopaintError

T = TypeVar("T")

_WORDS = {
    "str": "text, in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "named fields",
    "null": "nothing",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_STEP = re.compile(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]")


def check(content: object, kind: type[T], *, error: type[RotopaintError], others: bool = False) -> T:
    """The content of a file as a dataclass of type `kind`.

    Unknown fields are refused unless `others` is set; numbers must be finite.
    Raises: `error`, in the form `where is got; wanted what`; `where` is left out for the whole content. Errors that the
    dataclass itself raises are not changed.
    """
    import msgspec

    try:
        value = msgspec.convert(content, kind)
        refused = next(_refusals(content, value, "", others), None)
    except msgspec.ValidationError as wrong:
        raise error(_sentence(str(wrong), content, kind).strip()) from wrong
    except UnicodeEncodeError as wrong:
        raise error(_half_a_character(wrong.object)) from wrong
    except RecursionError as wrong:  # a YAML alias may refer to a part that contains it
        raise error("contains itself, or is nested without end; write each part once") from wrong
    if refused is not None:
        raise error(refused.strip())
    return value


def check_json(text: str | bytes, kind: type[T], *, error: type[RotopaintError]) -> T:
    """JSON text as a dataclass or `Struct` of type `kind`, decoded fast; unknown fields are ignored.

    Raises: `error`, as `check` does.
    """
    import msgspec

    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as wrong:
        raise error(_sentence(str(wrong), _json_content(text, error), kind).strip()) from wrong
    except (msgspec.DecodeError, UnicodeError, RecursionError) as wrong:
        raise error(f"cannot be read as JSON ({wrong})") from wrong


def _json_content(text: str | bytes, error: type[RotopaintError]) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:  # wrong in another place too
        raise error(f"cannot be read as JSON ({wrong})") from wrong


def _half_a_character(text: object) -> str:
    """The error for a text with a lone surrogate or a null.

    JSON and YAML can spell a lone surrogate as `\\ud800`, but no UTF-8 file can hold it, and no file name holds a null.
    """
    return f"the text {str(text)[:40]!a} holds a null or half a character; correct or rename it"


def check_format(content: object, name: str, version: int, *, error: type[RotopaintError]) -> dict[str, Any]:
    """The content of a file without its fields `format` and `version`. Raises `error` where one of the two differs."""
    if not isinstance(content, dict):
        raise error(f"is {_kind_of(content)}; wanted named fields, among them format '{name}'")
    if content.get("format") != name or content.get("version") != version:
        got = f"format {content.get('format')!r} version {content.get('version')!r}"
        raise error(f"{got}; wanted format '{name}' version {version}")
    return {field: value for field, value in content.items() if field not in ("format", "version")}


def _sentence(message: str, content: object, kind: type) -> str:
    """The error of `msgspec`, rewritten as `where is got; wanted what`."""
    text, _, place = message.partition(" - at ")
    where, got = _walk_path(place, _entry_alone(place, content, kind))
    if expected := re.match(r"Expected `([^`]+)`(?: of (?:at least )?length (.+?))?(?:, got .*)?$", text):
        kinds = [_WORDS.get(kind.strip(), kind.strip()) for kind in expected[1].split("|")]
        wanted = " or ".join(kinds) + (f" of {expected[2]}" if expected[2] else "")
        at = f"a name in {where}" if place.startswith("`key`") else where
        return f"{at} is {'another' if place.startswith('`key`') else _short_of(got)}; wanted {wanted}"
    if bound := re.match(r"Expected `(\w+)` (<=?|>=?) (\S+)$", text):
        wanted = f"{_WORDS.get(bound[1], bound[1])} {_BOUNDS[bound[2]]} {float(bound[3]):,.15g}"
        return f"{where} is {_short_of(got)}; wanted {wanted}"
    if missing := re.match(r"Object missing required field `(.+?)`", text):
        near = get_close_matches(missing[1], [str(name) for name in got], 1) if isinstance(got, Mapping) else []
        hint = f"is '{near[0]}' meant for it?" if near else "wanted this field"
        return f"{where}: {missing[1]} is missing; {hint}".removeprefix(": ")
    if text.startswith("Invalid enum value") and (choices := _choices_at(place, kind)):
        return f"{where} is {_short_of(got)}; wanted {'one of ' * (len(choices) > 1)}{', '.join(map(str, choices))}"
    return f"{where} is {_short_of(got)}; {text[:1].lower()}{text[1:]}"


def _choices_at(place: str, kind: Any) -> tuple[object, ...]:
    """The allowed values at a path, where the type there is an enumeration."""
    for step in _STEP.finditer(place):
        if step[1] is None:
            kind = (*get_args(kind), None)[0]
        else:
            kind = get_type_hints(kind).get(step[1]) if isinstance(kind, type) else None
    return get_args(kind) if get_origin(kind) is Literal else ()


def _walk_path(place: str, content: object) -> tuple[str, object]:
    """A path such as `$.shapes[0].role` as words, and the value there; items with a name are called by it."""
    words: list[str] = []
    for step in _STEP.finditer(place):
        if step[1] is not None:
            words.append(step[1])
            content = content.get(step[1]) if isinstance(content, Mapping) else None
        elif step[2] == "...":
            if isinstance(content, Mapping) and len(content) == 1:
                [(name, content)] = content.items()
                words.append(str(name))
            else:  # `msgspec` does not say which entry
                words.append("one of them")
                content = None if not isinstance(content, Mapping) else dict(content)
        else:
            row = int(step[2])
            content = content[row] if isinstance(content, list | tuple) and row < len(content) else None
            name = content.get("name") if isinstance(content, Mapping) else None
            words[-1:] = [f"{words[-1] if words else 'item'} {name!r}" if isinstance(name, str) else _nth(words, row)]
    return ": ".join(words), content


def _entry_alone(place: str, content: Any, kind: type) -> Any:
    """The content with only the wrong entry left in the mapping at the path's first `[...]`.

    `msgspec` does not say which entry of a mapping is wrong, so this function finds it.
    """
    import msgspec

    before, dots, _ = place.partition("[...]")
    steps = [step[1] if step[1] is not None else int(step[2]) for step in _STEP.finditer(before)]
    entries = _item_at(content, steps) if dots else ()
    for name, item in entries.items() if isinstance(entries, Mapping) else ():
        alone = _with_item(content, steps, {name: item})
        try:
            msgspec.convert(alone, kind)
        except msgspec.ValidationError:
            return alone
    return content


def _item_at(content: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        content = content[step]
    return content


def _with_item(content: Any, steps: Sequence[str | int], item: object) -> Any:
    """The content with the item at a path replaced."""
    if not steps:
        return item
    parts: Any = dict(content) if isinstance(content, Mapping) else list(content)
    parts[steps[0]] = _with_item(content[steps[0]], steps[1:], item)
    return parts


def _nth(words: list[str], row: int) -> str:
    return f"{words[-1] if words else 'item'} {row + 1}"


def _refusals(content: object, value: object, where: str, others: bool) -> Iterator[str]:
    """Messages about unknown fields and numbers that are not finite, depth first."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is {value}; wanted a finite number"
    elif isinstance(value, str) and _NO_TEXT.search(value):
        yield _half_a_character(value)
    elif is_dataclass(value) and isinstance(content, Mapping):
        known = [field.name for field in fields(value)]
        for name in () if others else content:
            if name not in known:
                near = get_close_matches(str(name), known, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"wanted only {', '.join(sorted(known))}"
                yield f"{where} has an unknown field '{name}'; {hint}"
        for name in known:
            if name in content:
                yield from _refusals(content[name], getattr(value, name), _join_where(where, name), others)
    elif isinstance(value, Mapping) and isinstance(content, Mapping):
        for name, item in value.items():
            yield from _refusals(name, name, where, others)
            yield from _refusals(content.get(name), item, _join_where(where, str(name)), others)
    elif isinstance(value, list | tuple) and isinstance(content, list | tuple):
        for row, (part, item) in enumerate(zip(content, value)):
            name = getattr(item, "name", None)
            yield from _refusals(part, item, f"{where} {name!r}" if name else f"{where} {row + 1}", others)


def _join_where(where: str, name: str) -> str:
    return f"{where}: {name}" if where else name


def _short_of(value: object) -> str:
    if value is None:
        return "empty"
    return repr(value) if isinstance(value, str | int | float | bool) else _kind_of(value)


def _kind_of(value: object) -> str:
    if isinstance(value, Mapping):
        return f"a group of {len(value)} named fields"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else repr(value)[:80]
