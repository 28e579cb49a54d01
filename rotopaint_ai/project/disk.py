"""Whether a file lies on a local disk. SQLite's write-ahead log needs that: it uses memory shared within one machine.

Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

_LOCAL = frozenset(
    {"apfs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "hfs", "ntfs", "ntfs3", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_DRIVE_FIXED, _DRIVE_RAMDISK = 3, 6


def is_local(path: Path) -> bool:
    """Whether a file's disk is known to be local to this machine; False where that is unknown."""
    if sys.platform == "win32":
        return _is_local_drive(path)
    return _file_system(path.resolve(), _mounts()) in _LOCAL


def _mounts() -> list[tuple[str, str]]:
    """Mount points with the names of their file systems."""
    try:
        text = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _mounts_by_command()
    rows = (line.split() for line in text.splitlines())
    return [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]


def _mounts_by_command() -> list[tuple[str, str]]:
    """macOS: lines such as `/dev/disk3s1 on / (apfs, local)`."""
    import subprocess

    try:
        text = subprocess.run(["/sbin/mount"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.partition(" on ")[2].rpartition(" (") for line in text.splitlines())
    return [(place, facts.partition(",")[0].rstrip(")")) for place, _, facts in rows if place]


def _file_system(path: Path, mounts: Iterable[tuple[str, str]]) -> str:
    best, kind = "", ""
    for place, name in mounts:
        inside = str(path) == place or str(path).startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):  # the later of two mounts at one place hides the other
            best, kind = place, name
    return kind


def _is_local_drive(path: Path) -> bool:
    import ctypes

    drive = os.path.splitdrive(str(path.resolve()))[0]
    if not drive.endswith(":"):
        return False  # \\server\share
    windll = getattr(ctypes, "windll")  # noqa: B009 - missing on other systems
    return windll.kernel32.GetDriveTypeW(drive + "\\") in (_DRIVE_FIXED, _DRIVE_RAMDISK)
