"""Clean plates compared with other installed inpainting tools: quality in the true seam, and speed (goals G4, G4b, P3).

The other tools are called peers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai import fills

if TYPE_CHECKING:
    from rotopaint_ai.bench.clean_cases import Case
    from rotopaint_ai.bench.clean_page import ReportPictures

STAGE_SEEDS = (4107, 4108)  # characters of the stage that training never uses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument(
        "--shots", nargs="+", metavar="DIR", help="rendered shots: plate, clean, seam and truth.roto.json; or the stage"
    )
    parser.add_argument(
        "--pictures",
        nargs="+",
        default=[],
        metavar="PLATES",
        help="real pictures and sequences, on which synthetic seams are drawn",
    )
    parser.add_argument("--frames", type=int, default=8, metavar="N", help="frames of each shot and sequence (8)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use only every N-th frame (1)")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="own fill methods to measure (default: all)")
    parser.add_argument("--model", metavar="PACK", help="model pack: a folder or the name of an installed one")
    parser.add_argument("--no-predict", action="store_true", help="do not measure with predicted mattes")
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has scikit-image and opencv-contrib")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out peers that take seconds a frame: xphoto's FSR and shift map, G'MIC's matchpatch and morpho",
    )
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="rounds of the speed comparison (7)")
    parser.add_argument("--page", metavar="FILE", help="write tables and 4 x pictures as HTML")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises: UsageError for shots and pictures that cannot be used."""
    from rotopaint_ai.cli.shared import one_thread_per_frame

    one_thread_per_frame()
    from rotopaint_ai.bench import clean_page
    from rotopaint_ai.bench.clean_speed import speed
    from rotopaint_ai.files import write_text

    with tempfile.TemporaryDirectory() as scratch:
        cases = _cases(arguments, Path(scratch))
        found = [_measure_case(case, arguments) for case in cases]
        refused: dict[str, str] = {}
        for _, _, not_asked in found:
            refused |= not_asked
        result = {
            "cases": [content for content, _, _ in found],
            "speed": speed(cases, _chosen_methods(arguments), repeats=max(1, arguments.repeats), model=arguments.model),
            "refused": refused,
        }
    if arguments.page:
        write_text(Path(arguments.page), clean_page.render_comparison(result, [shown for _, shown, _ in found]))
    return result


def _cases(arguments: argparse.Namespace, scratch: Path) -> list[Case]:
    from rotopaint_ai.bench import clean_cases

    folders = [Path(shot) for shot in arguments.shots or ()] or _film(scratch, arguments.frames)
    cases = []
    for folder in folders:
        predicted = None
        if not arguments.no_predict:
            suffix = next(s for s in (".jpg", ".png", ".exr") if any(folder.glob(f"plate.*{s}")))
            predicted = clean_cases.predict_landmarks(
                folder, suffix, scratch, n_frames=arguments.frames, model=arguments.model
            )
        cases.append(
            clean_cases.read_rendered_case(folder, every=arguments.every, last=arguments.frames, predicted=predicted)
        )
    for seed, source in enumerate(arguments.pictures):
        for grain, is_float in ((0.0, False), (clean_cases.GRAIN, False), (clean_cases.GRAIN, True)):
            cases.append(
                clean_cases.burn_case(source, n_frames=arguments.frames, seed=seed, grain=grain, is_float=is_float)
            )
    return cases


def _film(scratch: Path, n_frames: int) -> list[Path]:
    """Two shots rendered by the stage: one as 8-bit PNG, one as EXR with values above 1."""
    from rotopaint_ai.stage.puppet_shot import StageShot, write_shot

    folders = []
    for seed, suffix in zip(STAGE_SEEDS, (".png", ".exr")):
        folders.append(scratch / "stage" / f"{seed}{suffix}")
        write_shot(folders[-1], StageShot(seed, frames=n_frames), suffix=suffix)
    return folders


def _chosen_methods(arguments: argparse.Namespace) -> Sequence[str]:
    from rotopaint_ai.bench.clean_ours import METHODS

    return arguments.methods or METHODS


def _measure_case(case: Case, arguments: argparse.Namespace) -> tuple[dict[str, Any], ReportPictures, dict[str, str]]:
    """Measure one case: its figures, its pictures, and the peers that could not be measured."""
    from rotopaint_ai.bench import clean_ours, clean_page, clean_peers
    from rotopaint_ai.bench.clean_score import left_windows, score_case

    ours = clean_ours.fill_case(case, _chosen_methods(arguments), arguments.model)
    asked = clean_peers.ask(case.sights, python=arguments.peers, quick=arguments.quick)
    theirs = {each.name: each for each in asked if each.refused is None}
    lights = {"untouched": [s.plate for s in case.sights], **{n: made.lights for n, made in (ours | theirs).items()}}
    scores = {name: _rounded_scores(score_case(case, made)) for name, made in lights.items()}
    for name, one in (ours | theirs).items():
        scores[name]["ms"] = round(sum(one.ms) / len(one.ms), 2)
    for name, mine in ours.items():
        scores[name]["chosen"] = dict(mine.chosen)
    content: dict[str, Any] = {
        "case": case.name,
        "frames": len(case.sights),
        "is_8_bit": case.is_8_bit,
        "methods": scores,
    }
    content |= _verdict(scores, list(ours), list(theirs))
    middle = len(case.sights) // 2
    best_peer = {content["best_peer"]: theirs[content["best_peer"]].lights[middle]}
    own = {name: made.lights[middle] for name, made in ours.items()}
    pictures = clean_page.picture_of(case.sights[middle], {**best_peer, **own})
    if ours:
        method = fills.DEFAULT if fills.DEFAULT in ours else next(iter(ours))
        left = left_windows(case, ours[method].lights)
        pictures += clean_page.worst_pictures(case, ours[method].lights, left)
    return (
        content,
        clean_page.ReportPictures(case.name, pictures),
        {e.name: e.refused for e in asked if e.refused is not None},
    )


def _rounded_scores(scores: Any) -> dict[str, Any]:
    from dataclasses import asdict
    from math import isfinite

    plain = asdict(scores)
    whole = {name: value for name, value in plain.items() if isinstance(value, int)}
    parts = {n: round(v, 4) if isfinite(v) else None for n, v in plain.items() if isinstance(v, float)}
    return dict.fromkeys(plain) | whole | parts


def _verdict(scores: Mapping[str, Mapping[str, Any]], ours: Sequence[str], theirs: Sequence[str]) -> dict[str, Any]:
    """A sentence that names the best own method and its lead over the best peer, in dB."""
    best_peer = max(theirs, key=lambda name: scores[name]["psnr_db"])
    true = [name for name in ours if not name.endswith("own matte")]
    own = [name for name in ours if name.endswith("own matte")]
    best_own = max(true, key=lambda name: scores[name]["psnr_db"])
    gains = {name: round(scores[name]["psnr_db"] - scores[best_peer]["psnr_db"], 2) for name in (*true, *own)}
    words = f"{best_own} {gains[best_own]:+.2f} dB over the best peer ({best_peer})"
    if own:
        best = max(own, key=lambda name: gains[name])
        words += f"; {best} {gains[best]:+.2f} dB"
    return {"best_peer": best_peer, "best_own": best_own, "gain_db": gains, "verdict": words}
