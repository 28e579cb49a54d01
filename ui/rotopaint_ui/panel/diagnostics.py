"""The text that "Copy diagnostics" puts on the clipboard: versions, machine, shot, and all status messages."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import qVersion

import rotopaint_ai
from rotopaint_ai.jobs import n_cores
from rotopaint_ui.host import Host
from rotopaint_ui.session.session import ShotSession

_PACKAGES = ("onnxruntime", "numpy", "opencv-python-headless", "OpenImageIO", "opencolorio", "av", "PySide6-Essentials")


def diagnostics_text(host: Host, session: ShotSession, messages: Iterable[str], complaint: str) -> str:
    """The report for the developers; `complaint` is the end of the engine's error output."""
    lines = [
        f"RotoPaint AI {rotopaint_ai.__version__}, host {host.name}",
        f"Python {sys.version.split()[0]}, Qt {qVersion()}, {platform.platform()}, {n_cores()} cores",
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("ROTOPAINT_")),
        "",
        *_shot_lines(session),
        "",
        "Messages, newest last:",
        *(f"  {text}" for text in messages),
    ]
    return "\n".join(lines + (["", "Engine:", complaint.strip()] if complaint.strip() else [])) + "\n"


def _shot_lines(session: ShotSession) -> list[str]:
    plate, document, run = session.plate, session.document, session.run
    if plate is None:
        return ["No plate is open"]
    size = f"{plate.width} x {plate.height}, {plate.first}-{plate.last}, {plate.colourspace}, {plate.bit_depth}"
    lines = [f"Plate {plate.source}: {size}", f"Output {session.out}", f"Frame {session.frame}"]
    if document is not None:
        keys = sum(len(shape.keys) for shape in document.shapes)
        lines.append(f"{len(document.shapes)} shapes, {keys} keys, {len(document.landmarks.names)} landmarks")
    if run.device:
        lines.append(f"Last run: {run.device}, {len(run.failed)} failed, {len(run.lost)} lost")
    return lines


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not in this Python"
