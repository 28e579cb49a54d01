"""Model packs: one folder with a character sheet, its models, and a card with their checksums.

    sheet.yaml      the character sheet
    landmarks.onnx  `crop` float32 [N,S,S,3] display-referred RGB 0..1 -> `landmarks` [N,L,2] crop pixels,
                    `expected_error` [N,L] crop pixels, `visible` [N,L] probability
    shapes.onnx     `landmarks` float32 [N,L,2] plate space -> `points` [N,P,6] plate space, and optionally
                    `width` [N,n_shapes]: the seam's full width in plate pixels
    seam.onnx       optional: `strip` or `zoomed_strip` float32 [N,T,D,3], strips along predicted seams
                    (seams/placement.py), T a multiple of 8, D = 40 -> `logits` [N,T/2,D+1]: the seam at each offset,
                    and last `not visible`; a model with `zoomed_strip` also accepts strips of twice the resolution, and
                    one with `featured_strip` [N,T,D,11] such strips with the features of seam_features.onnx there
    seam_features.onnx  with `featured_strip`: `crop` float32 [N,416,416,3] display-referred RGB 0..1, cut around the
                    landmarks with CROP_MARGIN -> `features` [N,H,W,8] of the crop, at a lower resolution
    fill.onnx       optional: `strip` float32 [N,T,S,11], straightened seams (seams/learned_fill.py), T and S multiples
                    of 4 -> `answer` [N,T,S,6]: weights of three sources of light, and an offset per colour; a pack
                    without one, or with an earlier version's, paints with the shipped pack's
    detector.onnx   optional: `picture` float32 [N,H,W,3] display-referred RGB 0..1, H and W fixed -> `boxes` [N,F,4]
                    x0, y0, x1, y1 in its pixels, `scores` [N,F] (0: no face), `masks` [N,F,S,S] over rectangles
                    1.3 times the boxes, `keypoints` [N,F,5,2]: right and left pupil, tip of the nose, ends of the mouth
    matte.onnx      optional: `crop` float32 [N,S,S,3] display-referred RGB 0..1, S fixed, cut around the landmarks with
                    CROP_MARGIN -> `front` [N,S,S]: coverage 0..1 by what stands in front of the face, such as a hand, a
                    prop, hair or a hat (seams/front.py); other outputs, `skin` and `edges` of ours, are not used
    head.json       optional: the character's rigid head, its landmarks and open seams in space (pipeline/known_head.py)
    card.json       input size, crop margin, colour, training, metrics, licence and the SHA-256 of each file

Training writes the card with `write_card`. `load_pack` refuses a pack that does not fit its card.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import PackError
from rotopaint_ai.files import file_bytes, file_sha256, user_cache, write_json
from rotopaint_ai.inference.onnx_session import Signature, Tensor
from rotopaint_ai.inference.process import read_signature, shipped_places
from rotopaint_ai.inference.signing import check_signature
from rotopaint_ai.sheet import Sheet, load_sheet
from rotopaint_ai.value_checks import check, check_format

FORMAT = "rotopaint-pack"
VERSION = 1
SHEET = "sheet.yaml"
LANDMARKS = "landmarks.onnx"
SHAPES = "shapes.onnx"
SEAM = "seam.onnx"
SEAM_FEATURES = "seam_features.onnx"
FILL = "fill.onnx"
DETECTOR = "detector.onnx"
SEGMENTATION = "matte.onnx"
HEAD = "head.json"
CARD = "card.json"
DEFAULT = "default"  # name of the shipped pack

SEAM_MULTIPLE = 8  # the length T of a seam model's strips is a multiple of this ...
SEAM_OFFSETS = 40  # ... and this is their number of offsets D
# A seam model's input name -> the resolutions of strips it accepts, as multiples of the lowest.
SEAM_STRIPS = {"strip": (1,), "zoomed_strip": (1, 2), "featured_strip": (1, 2)}
FEATURED_STRIP = "featured_strip"  # the input whose strips have features beside the three colours ...
SEAM_CROP_PX, SEAM_N_FEATURES = 416, 8  # ... of a crop of this side, so many of them
FILL_MULTIPLE = 4  # both sides of a fill model's strips are multiples of this
FILL_CHANNELS, FILL_ANSWERS = 11, 6  # input and output channels
_EARLIER_ANSWERS = 7  # output channels of fills that corrected another paint; the shipped pack's replaces them

_NEEDED = (SHEET, LANDMARKS, SHAPES)
# files whose hash the card must hold: models, their external weights, the sheet, the head
_HASHED = ("*.onnx", "*.data", SHEET, HEAD)
# StringStringEntryProto{key: "location", value: a name of less than 128 bytes} of TensorProto.external_data, onnx.proto
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
BAD_PERCENT = 5.0  # percent of the face's width: twice the shipped pack's error on unseen faces
_CARD_LIMIT_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Pack:
    """A checked pack: every hash, name and size fits."""

    folder: Path
    name: str
    sheet: Sheet
    input_size: int  # side of the landmark model's square crop, pixels
    crop_margin: float  # crop side / longest side of the landmarks' bounding box
    card: Mapping[str, Any]
    fill_path: Path | None  # the learned fill: the shipped pack's where this one has none or an earlier version's
    files: Mapping[str, str]  # SHA-256 of every file that the pack uses, by name

    @property
    def note(self) -> str | None:
        """What a user should know of its files; None for nothing."""
        own = self.folder / FILL
        if not own.is_file() or self.fill_path == own:
            return None
        return (
            f"pack {self.name}: its {FILL} is of an earlier version, and the shipped pack's paints; train a new one "
            "with --recipe fill"
        )

    @property
    def landmarks_path(self) -> Path:
        """The landmark model."""
        return self.folder / LANDMARKS

    @property
    def shapes_path(self) -> Path:
        """The shape model."""
        return self.folder / SHAPES

    @property
    def seam_path(self) -> Path | None:
        """The seam model, where the pack has one."""
        return self._path_of(SEAM)

    @property
    def seam_features_path(self) -> Path | None:
        """The network whose features a seam model reads, where the pack has one."""
        return self._path_of(SEAM_FEATURES)

    @property
    def detector_path(self) -> Path | None:
        """The face detector, where the pack has one."""
        return self._path_of(DETECTOR)

    @property
    def front_path(self) -> Path | None:
        """The segmentation network, where the pack has one."""
        return self._path_of(SEGMENTATION)

    def _path_of(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.is_file() else None


@dataclass(frozen=True, slots=True)
class _CardFields:
    """The fields that every card has; others are kept unchanged."""

    name: str
    input_size: int
    crop_margin: float
    files: dict[str, str]


def load_pack(pack: str | Path | None = None) -> Pack:
    """Open a pack by folder or name; None is the shipped default.

    Names are looked up in `$ROTOPAINT_MODELS`, the user's cache and the shipped packs, in this order.

    Raises: PackError when the pack is missing, incomplete or altered, lacks a demanded signature (`signing`), or its
    models do not fit its sheet and card.
    """
    folder = find_pack(pack)
    card = _read_card(folder, is_trusted=False)
    fields = _card_fields(card, folder)
    _check_files(folder, fields.files)
    sheet = load_sheet(folder / SHEET)
    fill = _fill_of(folder, fields.files)
    loaded = Pack(
        folder=folder,
        name=fields.name,
        sheet=sheet,
        input_size=fields.input_size,
        crop_margin=fields.crop_margin,
        card=card,
        fill_path=None if fill is None else fill[0],
        files=fields.files if fill is None else {**fields.files, FILL: fill[1]},
    )
    _check_numbers(loaded)
    marks = loaded.landmarks_path
    check_landmark_signature(read_signature(marks), sheet, loaded.input_size, str(marks))
    check_shape_signature(read_signature(loaded.shapes_path), sheet, str(loaded.shapes_path))
    if loaded.seam_path is not None:
        check_seam_signature(read_signature(loaded.seam_path), str(loaded.seam_path))
        if loaded.seam_features_path is not None:
            check_features_signature(read_signature(loaded.seam_features_path), str(loaded.seam_features_path))
        elif seam_strip(read_signature(loaded.seam_path)) == FEATURED_STRIP:
            raise PackError(f"{folder}: {SEAM_FEATURES} is missing, which its {SEAM} reads; install the pack again")
    if loaded.detector_path is not None:
        check_detector_signature(read_signature(loaded.detector_path), str(loaded.detector_path))
    if loaded.front_path is not None:
        check_front_signature(read_signature(loaded.front_path), str(loaded.front_path))
    return loaded


def _fill_of(folder: Path, files: Mapping[str, str]) -> tuple[Path, str] | None:
    """The learned fill for a pack, which knows no character, and its SHA-256; None where there is none.

    It is the pack's own, or the shipped pack's where it has none or an earlier version's. Raises PackError.
    """
    own = folder / FILL
    signature = read_signature(own) if own.is_file() else None
    if (signature is None or is_earlier_fill(signature)) and (shipped := _shipped_fill(folder)) is not None:
        return shipped
    if signature is None:
        return None
    check_fill_signature(signature, str(own))
    return own, files[FILL]


def _shipped_fill(other: Path) -> tuple[Path, str] | None:
    """The fill of the shipped pack and its SHA-256; None where none is installed, or it is `other`, altered, or not
    signed where that is demanded."""
    try:
        folder = _default_pack()
        digest = _card_fields(_read_card(folder, is_trusted=False), folder).files.get(FILL)
        if digest is None or folder.resolve() == other.resolve() or not (folder / FILL).is_file():
            return None
        if file_sha256(folder / FILL) != digest:
            return None
        check_fill_signature(read_signature(folder / FILL), str(folder / FILL))
    except PackError:
        return None
    return folder / FILL, digest


def is_earlier_fill(signature: Signature) -> bool:
    """Whether a learned fill corrects another paint, as fills of earlier versions did."""
    answer = signature.outputs.get("answer")
    return answer is not None and answer.shape[-1:] == (_EARLIER_ANSWERS,)


def write_card(folder: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    """Write `card.json` for a pack's folder and return it: the given fields, format, version and each file's SHA-256.

    `card` must have name, input_size and crop_margin; created, colour, face_width, training, metrics and licence are
    usual.

    Raises: PackError when a file or one of the required fields is missing.
    """
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise PackError(f"{folder}: {name} is missing; a pack wants {', '.join(_NEEDED)}")
    files = {path.name: file_sha256(path) for path in _hashed_files(folder)}
    full = {"format": FORMAT, "version": VERSION, **card, "files": files}
    _card_fields(full, folder)
    write_json(folder / CARD, full)
    return full


def load_card(folder: Path) -> dict[str, Any]:
    """The card of a pack's folder, without the fields that `write_card` adds. Raises PackError."""
    return {name: value for name, value in _read_card(folder).items() if name not in ("format", "version", "files")}


def find_pack(pack: str | Path | None = None) -> Path:
    """The folder of a pack given by folder or name. Raises PackError.

    None is the shipped default; so is the name `default`, unless an installed pack has that name.
    """
    if pack is None:
        return _default_pack()
    folder = Path(pack)
    if folder.is_dir():
        return folder
    if folder.name == CARD and folder.is_file():
        return folder.parent
    if len(folder.parts) == 1:
        for place in pack_places():
            if (place / folder / CARD).is_file():
                return place / folder
    if str(pack) == DEFAULT:
        return _default_pack()
    known = ", ".join(sorted(path.name for path in installed_packs())) or "none"
    raise PackError(f"model pack '{pack}': no such folder or name; installed packs: {known}")


def installed_packs() -> list[Path]:
    """Folders of all installed packs; of packs with the same name, the first found."""
    found: dict[str, Path] = {}
    for place in pack_places():
        for card in sorted(place.glob(f"*/{CARD}")):
            found.setdefault(card.parent.name, card.parent)
    return list(found.values())


def pack_places() -> list[Path]:
    """Folders that are searched for packs: `$ROTOPAINT_MODELS`, the user's cache, the shipped packs."""
    named = [Path(item) for item in os.environ.get("ROTOPAINT_MODELS", "").split(os.pathsep) if item]
    return [*named, user_cache() / "models", *shipped_places()]


def _default_pack() -> Path:
    shipped = [card.parent for place in shipped_places() for card in sorted(place.glob(f"*/{CARD}"))]
    if not shipped:
        raise PackError("no model pack is installed; name one with --model, or reinstall the product with its models")
    marked = [folder for folder in shipped if _read_card(folder).get("default") is True]
    return (marked or shipped)[0]


def check_landmark_signature(signature: Signature, sheet: Sheet, input_size: int, where: str) -> None:
    """Raise PackError unless a landmark model's inputs and outputs fit the sheet and the input size."""
    n_landmarks = len(sheet.landmarks)
    _check_tensor(signature.inputs, "crop", (None, input_size, input_size, 3), f"{where}: input")
    _check_only(signature.inputs, {"crop"}, where)
    for name, shape in (
        ("landmarks", (None, n_landmarks, 2)),
        ("expected_error", (None, n_landmarks)),
        ("visible", (None, n_landmarks)),
    ):
        _check_tensor(signature.outputs, name, shape, f"{where}: output")


def check_shape_signature(signature: Signature, sheet: Sheet, where: str) -> None:
    """Raise PackError unless a shape model's inputs and outputs fit the sheet."""
    _check_tensor(signature.inputs, "landmarks", (None, len(sheet.landmarks), 2), f"{where}: input")
    _check_only(signature.inputs, {"landmarks"}, where)
    _check_tensor(signature.outputs, "points", (None, sheet.n_points, 6), f"{where}: output")
    if "width" in signature.outputs:
        _check_tensor(signature.outputs, "width", (None, len(sheet.shapes)), f"{where}: output")


def check_seam_signature(signature: Signature, where: str) -> None:
    """Raise PackError unless a seam model's inputs and outputs fit the pack format."""
    name = seam_strip(signature)
    n_channels = 3 + (SEAM_N_FEATURES if name == FEATURED_STRIP else 0)
    _check_tensor(signature.inputs, name, (None, None, SEAM_OFFSETS, n_channels), f"{where}: input")
    _check_only(signature.inputs, {name}, where)
    _check_tensor(signature.outputs, "logits", (None, None, SEAM_OFFSETS + 1), f"{where}: output")


def check_features_signature(signature: Signature, where: str) -> None:
    """Raise PackError unless the inputs and outputs of a seam model's features fit the pack format."""
    _check_tensor(signature.inputs, "crop", (None, SEAM_CROP_PX, SEAM_CROP_PX, 3), f"{where}: input")
    _check_only(signature.inputs, {"crop"}, where)
    _check_tensor(signature.outputs, "features", (None, None, None, SEAM_N_FEATURES), f"{where}: output")


def seam_strip(signature: Signature) -> str:
    """The name of a seam model's input, one of SEAM_STRIPS; `strip` where it has none of them."""
    return next((name for name in SEAM_STRIPS if name in signature.inputs), "strip")


def check_fill_signature(signature: Signature, where: str) -> None:
    """Raise PackError unless a learned fill's inputs and outputs fit the pack format."""
    try:
        _check_tensor(signature.inputs, "strip", (None, None, None, FILL_CHANNELS), f"{where}: input")
        _check_only(signature.inputs, {"strip"}, where)
        _check_tensor(signature.outputs, "answer", (None, None, None, FILL_ANSWERS), f"{where}: output")
    except PackError as error:
        raise PackError(
            f"{error}; the fill is of another version of the product: train the pack again, or put a fill of this "
            "version into it (rotopaint train SHOTS --recipe fill --out PACK)"
        ) from error


def check_detector_signature(signature: Signature, where: str) -> None:
    """Raise PackError unless a face detector's inputs and outputs fit the pack format."""
    _check_tensor(signature.inputs, "picture", (None, None, None, 3), f"{where}: input")
    _check_only(signature.inputs, {"picture"}, where)
    if not all(isinstance(size, int) for size in signature.inputs["picture"].shape[1:3]):
        raise PackError(f"{where}: input 'picture' has no fixed height and width; export the detector for one size")
    for name, shape in (
        ("boxes", (None, None, 4)),
        ("scores", (None, None)),
        ("masks", (None, None, None, None)),
        ("keypoints", (None, None, 5, 2)),
    ):
        _check_tensor(signature.outputs, name, shape, f"{where}: output")


def check_front_signature(signature: Signature, where: str) -> None:
    """Raise PackError unless a segmentation network's input and output fit the pack format."""
    _check_tensor(signature.inputs, "crop", (None, None, None, 3), f"{where}: input")
    _check_only(signature.inputs, {"crop"}, where)
    height, width = signature.inputs["crop"].shape[1:3]
    if not isinstance(height, int) or height != width:
        raise PackError(f"{where}: input 'crop' is no square of fixed size; export the network for one size")
    try:
        _check_tensor(signature.outputs, "front", (None, height, width), f"{where}: output")
    except PackError as error:
        raise PackError(
            f"{error}; the network is of another version of the product: train it again, or take it out of the pack "
            "(rotopaint train FRONTS --recipe segmentation --out PACK)"
        ) from error


def _check_tensor(tensors: Mapping[str, Tensor], name: str, wanted: tuple[int | None, ...], where: str) -> None:
    if name not in tensors:
        raise PackError(
            f"{where} '{name}' is missing, found {_quoted_names(tensors)}; export the model with the pack's names"
        )
    tensor = tensors[name]
    if tensor.type != "tensor(float)":
        raise PackError(f"{where} '{name}' is {tensor.type}; wanted tensor(float), which is float32")
    fits = len(tensor.shape) == len(wanted) and all(
        got == want or want is None or not isinstance(got, int) for got, want in zip(tensor.shape, wanted)
    )
    if not fits:
        text = ", ".join("N" if size is None else str(size) for size in wanted)
        got = ", ".join(str(size) for size in tensor.shape)
        raise PackError(f"{where} '{name}' is [{got}]; wanted [{text}] by the sheet and card")


def _check_only(tensors: Mapping[str, Tensor], known: set[str], where: str) -> None:
    more = sorted(set(tensors) - known)
    if more:
        raise PackError(
            f"{where}: input '{more[0]}' is not one that a pack has; wanted only {', '.join(sorted(known))}"
        )


def _quoted_names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _read_card(folder: Path, *, is_trusted: bool = True) -> dict[str, Any]:
    path = folder / CARD
    try:
        content = file_bytes(path, _CARD_LIMIT_BYTES)
        card: dict[str, Any] = json.loads(content.decode())
    except FileNotFoundError as error:
        raise PackError(f"{folder}: no {CARD}; wanted a model pack's folder") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PackError(f"{path}: cannot be read ({error}); copy or export the pack again") from error
    try:
        check_format(card, FORMAT, VERSION, error=PackError)
    except PackError as error:
        raise PackError(f"{path}: {error}") from error
    if not is_trusted:
        check_signature(folder, content)
    return card


def _hashed_files(folder: Path) -> list[Path]:
    """The files whose hash the card must hold: models, the files with their external weights, the sheet, the head.

    Raises: PackError where a model's weights lie in another folder.
    """
    found = {path for pattern in _HASHED for path in folder.glob(pattern) if path.is_file()}
    for model in sorted(path for path in found if path.suffix == ".onnx"):
        for name in _weight_files(model):
            if not _PLAIN_NAME.fullmatch(name):
                raise PackError(f"{model}: its weights lie in '{name}'; wanted a plain name of a file beside it")
            found.add(folder / name)
    return sorted(path for path in found if path.is_file())


def _weight_files(model: Path) -> set[str]:
    """Names of the files that hold a model's external weights, as the model states them."""
    content = model.read_bytes()
    return {
        content[match.end() : match.end() + match[1][0]].decode("utf-8", "replace")
        for match in _LOCATION.finditer(content)
    }


def _check_files(folder: Path, wanted: Mapping[str, str]) -> None:
    for name in (*_NEEDED, *(path.name for path in _hashed_files(folder))):
        if name not in wanted:
            raise PackError(f"{folder / CARD}: holds no hash of {name}; export the pack again, or remove the file")
    for name, digest in wanted.items():
        if not _PLAIN_NAME.fullmatch(name):
            raise PackError(f"{folder / CARD}: file '{name}' is not a plain name; export the pack again")
        if not (folder / name).is_file():
            raise PackError(f"{folder}: {name} is missing; copy or export the pack again")
        got = file_sha256(folder / name)
        if got != digest:
            raise PackError(
                f"{folder / name}: altered since the card was written "
                f"(SHA-256 {got[:12]}, the card says {digest[:12]}); copy or export the pack again"
            )


def _check_numbers(pack: Pack) -> None:
    if not 16 <= pack.input_size <= 2048:
        raise PackError(f"{pack.folder / CARD}: input_size is {pack.input_size}; wanted 16 to 2048 pixels")
    if not 1.0 <= pack.crop_margin <= 4.0:
        raise PackError(f"{pack.folder / CARD}: crop_margin is {pack.crop_margin}; wanted 1 to 4")


def _card_fields(card: Mapping[str, Any], folder: Path) -> _CardFields:
    try:
        return check(card, _CardFields, error=PackError, others=True)
    except PackError as error:
        raise PackError(f"{folder / CARD}: {error}; export the pack again") from error
