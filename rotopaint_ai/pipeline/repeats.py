"""Mattes of exposures that were drawn just now: a frame that repeats one gets copies of its files.

Stop motion is shot on twos and threes, and the frames of a hold have exactly the same shapes, so that their mattes are
the same bytes. Drawing and packing them is the dearest part of a frame after reading and writing the plate itself.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.files import replacing
from rotopaint_ai.pipeline.finish import Mattes

KEPT = 4  # exposures in memory; more than are ever in work at once would be waste


@dataclass(frozen=True, slots=True)
class Drawn:
    """Mattes of a frame, the files that hold them (paths inside the run's folder), and what they were drawn from."""

    source: Any
    mattes: Mattes
    written: tuple[str, ...]


class Repeats:
    """Remembers the exposures that were drawn last; safe to ask from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[int, Future[Drawn]] = OrderedDict()

    def draw(self, exposure: int, source: Any, make: Callable[[], Drawn]) -> tuple[Drawn, bool]:
        """The mattes of an exposure (by its first frame), and whether they are another frame's with equal `source`.

        The first frame to ask draws; those that ask meanwhile wait for it. Where it failed, each draws for itself.
        """
        with self._lock:
            known = self._drawn.get(exposure)
            mine: Future[Drawn] = Future()
            if known is None:
                self._drawn[exposure] = mine
                while len(self._drawn) > KEPT:
                    self._drawn.popitem(last=False)
        if known is not None and known.exception() is None and known.result().source == source:
            return known.result(), True
        try:
            drawn = make()
        except BaseException as error:
            mine.set_exception(error)
            raise
        mine.set_result(drawn)
        return drawn, False


def copy_files(out: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Copy files inside a run's folder, each in one step."""
    for source, target in zip(sources, targets, strict=True):
        with replacing(out / target) as beside:
            shutil.copyfile(out / source, beside)
