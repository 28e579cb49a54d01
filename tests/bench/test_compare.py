"""A figure says what machine it is of, and two machines stand side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.bench import machine
from rotopaint_ai.cli import main


def test_a_machine_says_what_it_is() -> None:
    facts = machine.machine_facts()
    assert facts["cores"] >= 1
    assert facts["copy_gb_per_s"] > 0
    ridge = facts["float32_gflop_per_s"] / facts["copy_gb_per_s"]
    assert facts["ridge_flop_per_byte"] == pytest.approx(ridge, rel=0.1, abs=0.1)
    assert {"rotopaint-ai", "python", "numpy"} <= set(facts["versions"])
    if sys.platform == "linux" and Path("/sys/devices/system/cpu/cpu0/cache/index0").exists():
        assert any(name.startswith("L1") for name in facts["caches"])
    json.dumps(facts)


def test_unreadable_machine_facts_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example on ARM servers, whose kernel names caches without their sizes."""
    for index, files in (("index0", {"level": "1", "type": "Data", "size": "32K"}), ("index1", {"level": "2"})):
        (tmp_path / index).mkdir()
        for name, text in files.items():
            (tmp_path / index / name).write_text(f"{text}\n")
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    assert machine._caches() == {"L1 data": "32K"}


def test_a_roofline_takes_a_bounded_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[int]()
    monkeypatch.setattr(machine, "n_cores", lambda: 256)
    monkeypatch.setattr(machine, "_best_s", lambda act: 1.0)
    monkeypatch.setattr(machine.np, "ones", lambda shape, kind: taken.append(shape) or np.zeros(1))
    machine._roofline()
    assert sum(size for size in taken if isinstance(size, int)) <= 2 << 30


def test_a_roofline_is_the_best_round(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 9.0, 10.0, 10.5, 20.0, 20.2, 30.0, 30.4])  # warm-up 9, then 0.5, 0.2, 0.4
    monkeypatch.setattr(machine.time, "perf_counter", lambda: next(seconds))
    assert machine._best_s(lambda at: None) == pytest.approx(0.2)


class _NvmlError(Exception):
    pass


def _nvml(fails: bool) -> Any:
    def begin() -> None:
        if fails:
            raise _NvmlError("Driver Not Loaded")

    return SimpleNamespace(
        NVMLError=_NvmlError,
        nvmlInit=begin,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetName=lambda handle: b"NVIDIA X",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80e9),
        nvmlSystemGetDriverVersion=lambda: "555.1",
    )


def test_an_accelerator_is_never_silently_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there, absent = tmp_path / "nvidia0", tmp_path / "none"
    there.touch()
    for device, nvml, said in (
        (there, _nvml(False), "NVIDIA X, 80 GB; driver 555.1"),
        (there, _nvml(True), "an NVIDIA device whose driver does not answer (Driver Not Loaded)"),
        (there, None, "pip install nvidia-ml-py"),
        (absent, _nvml(True), "none"),
        (absent, None, "none"),
    ):
        monkeypatch.setattr(machine, "_DEVICE", device)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        assert said in machine.accelerator()


def _result(path: Path, cpu: str, rate: float, **more: Any) -> Path:
    content = {"benchmark": "infer", "settings": {"rounds": 3}, "ms": [rate, 2], "machine": {"cpu": cpu}, **more}
    path.write_text(json.dumps(content))
    return path


def test_two_machines_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = _result(tmp_path / "a.json", "Old", 4.0), _result(tmp_path / "b.json", "New", 1.0)
    assert main(["bench", "compare", str(a), str(b)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["infer", "A", "B", "B", "/", "A"],
        ["machine.cpu", "Old", "New"],
        ["ms[0]", "4", "1", "0.250"],
        ["ms[1]", "2", "2", "1.000"],
    ]


def test_a_folder_for_the_result_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "compare", "gone.json", "gone.json", "--json", str(tmp_path)]) == 2
    assert f"{tmp_path}: is a folder, so no file can be written there" in capsys.readouterr().err


def test_what_cannot_be_compared_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = _result(tmp_path / "a.json", "Old", 4.0)
    for other, said in (
        (_result(tmp_path / "b.json", "New", 4.0, settings={"rounds": 5}), "'settings' differs"),
        (_result(tmp_path / "c.json", "New", 4.0, machine="x86_64"), "does not describe its machine"),
        (tmp_path / "gone.json", "wanted a file that 'rotopaint bench --json' wrote"),
    ):
        assert main(["bench", "compare", str(a), str(other)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
