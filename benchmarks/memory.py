"""Peak memory of `rotopaint run` for shots of different length (goal P6), and at 1080p.

    python benchmarks/memory.py [--frames 2000 200] [--slice 0] [--large 24]

The sample shot is repeated forwards and backwards under new frame numbers. Each run is a separate process, and its peak
is the kernel's value for that process. With `--slice N` a run is stopped and resumed after every N frames, for machines
that limit the time of a process; the largest peak of all its processes counts. `--large N` measures N frames of
1920 x 1080 twice: with the shot enlarged to fill the plate, and with the shot at its own size in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rotopaint_ai.bench.plates import enlarge
from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

RUN = """
import sys
from rotopaint_ai.cli.shared import one_thread_per_frame
one_thread_per_frame()
from rotopaint_ai.errors import CancelledError
from rotopaint_ai.jobs import Cancel, RunJob
from rotopaint_ai.pipeline.manifest import peak_memory_mb
from rotopaint_ai.pipeline.run import run

plates, crop, out, frames, most, resume = sys.argv[1:]
cancel, left = Cancel(), [int(most)]

def sink(event):
    left[0] -= event.kind == "frame"
    if left[0] == 0:
        cancel.request()

job = RunJob(plates=plates, out=out, crops=(crop,), frames=frames, threads=2, resume=resume == "True")
try:
    run(job, sink, cancel)
    done = True
except CancelledError:
    done = False
print(done, peak_memory_mb())
"""


def peak_mb(plates: str, crop: str, out: Path, n_frames: int, piece: int) -> float:
    """The largest resident memory of a run's processes, megabytes."""
    worst, resume = 0.0, False
    while True:
        words = [plates, crop, str(out), f"1001-{1000 + n_frames}", str(piece or -1), str(resume)]
        done = subprocess.run([sys.executable, "-c", RUN, *words], check=True, capture_output=True, text=True)
        is_whole, peak = done.stdout.split()
        worst, resume = max(worst, float(peak)), True
        if is_whole == "True":
            return worst


def link_frames(folder: Path, n_frames: int) -> str:
    """Link the sample shot's files as `n_frames` frames from 1001; returns their pattern."""
    files = sorted(find_sample().glob("plate.*.exr"))
    swing = files + files[-2:0:-1]
    for row in range(n_frames):
        os.symlink(swing[row % len(swing)], folder / f"plate.{1001 + row}.exr")
    return str(folder / "plate.####.exr")


def main() -> int:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, nargs="+", default=[2000, 200])
    parser.add_argument("--slice", type=int, default=0)
    parser.add_argument("--large", type=int, default=24)
    asked = parser.parse_args()
    sample, found = find_sample(), {}
    crop = read_crops(sample / CROP_FILE)[0]
    with tempfile.TemporaryDirectory() as scratch:
        small = Path(scratch) / "small"
        small.mkdir()
        plates = link_frames(small, max(asked.frames))
        for n in asked.frames:
            found[f"{n} frames"] = round(peak_mb(plates, crop, Path(scratch) / f"out{n}", n, asked.slice), 1)
        if asked.large:
            for name, scale in (("filling the plate", None), ("as large as it is", 1.0)):
                large, crops = enlarge(sample, [crop], Path(scratch) / name, n_frames=asked.large, scale=scale)
                peak = peak_mb(large, crops[0], Path(scratch) / f"{name}-out", asked.large, 0)
                found[f"{asked.large} frames of 1920 x 1080, the shot {name}"] = round(peak, 1)
    print(json.dumps({"benchmark": "memory", "peak_mb": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
