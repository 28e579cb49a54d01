"""Cold start and first result (goal P9): `python benchmarks/start.py [--rounds 7]`.

Each measurement is a new process, in wall seconds and processor seconds. The shortest of the rounds counts, because
only other load makes a round longer. `first frame` is the time from the start of `rotopaint run` on the sample shot to
its first finished frame (processor time on Linux only), `whole shot` the time to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

Cost = tuple[float, float]  # wall seconds and processor seconds


def cost(*words: str) -> Cost:
    """The time of a Python process."""
    start, cpu = time.perf_counter(), _children_s()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, _children_s() - cpu


def _children_s() -> float:
    """Processor seconds of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _so_far_s(process: int) -> float:
    """Processor seconds of a running process; nan where the system does not report them."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_result() -> tuple[Cost, Cost]:
    """The times from the start of a run on the sample shot to its first finished frame, and to its end."""
    sample = find_sample()
    crop = read_crops(sample / CROP_FILE)[0]
    with tempfile.TemporaryDirectory() as out:
        words = ["-m", "rotopaint_ai", "run", str(sample / "plate.####.exr"), "--crop", crop, "--out", str(Path(out))]
        start, cpu = time.perf_counter(), _children_s()
        with subprocess.Popen([sys.executable, *words, "--events"], stdout=subprocess.PIPE, text=True) as job:
            assert job.stdout is not None
            next(line for line in job.stdout if json.loads(line)["event"] == "frame")
            first = time.perf_counter() - start, _so_far_s(job.pid)
            job.stdout.read()
        if job.returncode:
            raise SystemExit(f"the sample shot ended with {job.returncode}")
        return first, (time.perf_counter() - start, _children_s() - cpu)


def least(costs: Iterable[Cost]) -> Cost:
    """The smallest of each time."""
    walls, cpus = zip(*costs, strict=True)
    return min(walls), min(cpus)


def main() -> int:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    commands = {
        "bare Python": ("-c", "pass"),
        "import rotopaint_ai": ("-c", "import rotopaint_ai"),
        "rotopaint --help": ("-m", "rotopaint_ai", "--help"),
        "import of a run": ("-c", "import rotopaint_ai.pipeline.run"),
    }
    found = {name: least(cost(*words) for _ in range(rounds)) for name, words in commands.items()}
    firsts, wholes = zip(*(first_result() for _ in range(max(1, rounds // 3))), strict=True)
    found |= {"first frame": least(firsts), "whole shot": least(wholes)}
    shown = {name: {"wall_s": round(wall, 3), "processor_s": round(cpu, 3)} for name, (wall, cpu) in found.items()}
    print(json.dumps({"benchmark": "start", "found": shown}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
