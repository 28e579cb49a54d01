"""A made-up `run.json` content of 60 frames, and pictures for it."""

from __future__ import annotations

import math
from typing import Any

SHAPES: dict[str, dict[str, Any]] = {
    "seam_bridge": {"role": "seam", "closed": False},
    "seam_left": {"role": "seam", "closed": False},
    "eye_left": {"role": "matte", "closed": True},
    "mouth_outer": {"role": "matte", "closed": True},
}


def run_content(n_frames: int = 60) -> dict[str, Any]:
    """Frames from 1001 on; 1005 failed, 1007 is missing, in 1009 the face is lost, every second pair is a hold."""
    frames = [f for f in range(1001, 1001 + n_frames) if f not in (1005, 1007)]
    return {
        "format": "rotopaint-run",
        "version": 1,
        "command": "rotopaint run plate.####.exr --crop 100,80,300,300 --out out <test>",
        "finished": "2025-01-01 12:00",
        "versions": {"rotopaint": "0.1.0", "python": "3.11.2"},
        "plate": {
            "name": "sh010_plate",
            "suffix": ".exr",
            "width": 960,
            "height": 540,
            "colourspace": "linear",
            "first_frame": 1001,
            "last_frame": 1000 + n_frames,
            "fingerprint": "0123abcd",
        },
        "pack": {"name": "puppet-68", "files": {"landmarks.onnx": "ab" * 32, "shapes.onnx": "cd" * 32}},
        "device": {"asked": "auto", "used": "cpu", "note": "CPU (no CUDA provider in this onnxruntime)"},
        "frames": {
            "total": n_frames,
            "done": n_frames - 3,
            "failed": {"1005": "plate.1005.exr: the file ends early"},
            "missing": [1007],
            "lost": [1009],
            "held": [[1011, 1012], [1015, 1016], [1021, 1024]],
        },
        "shapes": SHAPES,
        "errors": {
            "shapes": list(SHAPES),
            "by_frame": {
                str(f): None if f == 1009 else [abs(math.sin(f * 0.3 * k)) * 1.2 * k / 2 + 0.2 for k in (1, 2, 3, 4)]
                for f in frames
            },
        },
        "seam": {
            "meaning": "How strongly the seam stands out of its surroundings.",
            "by_frame": {str(f): [None, None] if f == 1009 else [2.4 + math.sin(f * 0.2), 0.4] for f in frames},
        },
        "timing": {
            "wall_s": 12.3,
            "ms_per_frame": 205.0,
            "threads": 2,
            "work_ratio": 1.38,
            "stages": {
                "decode": {"mean_ms": 60.0, "median_ms": 59.0},
                "detect": {"mean_ms": 9.0, "median_ms": 8.8},
                "encode": {"mean_ms": 150.0, "median_ms": 149.0},
            },
        },
        "compare_frame": 1020,
        "pictures": [
            {
                "frame": frame,
                "worst": True,
                "error_px": None if frame == 1009 else 2.31,
                "worst_shape": "mouth_outer",
                "seam": [2.4, 0.4],
                "face": f"img/face.{frame}.jpg",
                "window": [300.0, 100.0, 300.0, 300.0],
                "before": f"img/before.{frame}.jpg",
                "after": None if frame == 1009 else f"img/after.{frame}.jpg",
                "compare_size": [320, 200],
                "shapes": {
                    "seam_bridge": [[340, 220, 0, 0, 30, -20], [560, 230, -30, -25, 0, 0]],
                    "eye_left": [[400, 240, -20, 0, 20, 0], [430, 265, 0, -10, 0, 10], [395, 280, 20, 0, -20, 0]],
                },
            }
            for frame in (1009, 1020, 1031, 1044)
        ],
        "exports": [
            {"format": "nuke", "path": "shapes.nk", "max_distance_px": 0.0031, "n_keys": 417, "loses": ""},
            {"format": "svg", "path": "shapes.svg", "max_distance_px": None, "loses": "timing"},
        ],
    }
