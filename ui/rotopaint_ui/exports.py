"""Carries out what the Export tab asks: counts keys, writes files and checks them, hands the shapes to the host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.names import renamed
from rotopaint_ui.clerk_client import ClerkClient
from rotopaint_ui.host import Host
from rotopaint_ui.inspector.export import ExportTab, count_text
from rotopaint_ui.session import Session


class Exports(QObject):
    """Works beside the screen; `said` gives a line and its kind for the status."""

    said = Signal(str, str)
    mattes_wanted = Signal(object, object)  # the document to be drawn, the folder
    ended = Signal(bool)

    def __init__(self, session: Session, host: Host, tab: ExportTab, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._host, self._tab = session, host, tab
        self._counter, self._writer = ClerkClient(self), ClerkClient(self)
        tab.count_wanted.connect(self._count)
        tab.wanted.connect(self.export)

    @property
    def is_running(self) -> bool:
        """Whether an export is under way."""
        return self._writer.is_busy

    def export(self) -> None:
        """Write what the tab says."""
        document, out = self._session.document, self._session.out
        if document is None or out is None:
            self.said.emit("Nothing to export yet: press Run first", "trouble")
            return
        if self._session.is_live or self.is_running:
            self.said.emit("Not now: wait for what is under way, or stop it with Esc", "trouble")
            return
        tab = self._tab
        if not (tab.targets or tab.wants_host or tab.mattes.isChecked()):
            self.said.emit("Nothing is chosen: tick where the shapes should go in the Export tab", "trouble")
            return
        why = self._session.refusal
        if why is not None and self._writes_files and _is_inside(Path(tab.folder.text()), out):
            self.said.emit(why, "trouble")
            return
        tab.show_running()
        self.said.emit("Exporting", "plain")
        reduced = Path(tempfile.mkdtemp(prefix="rotopaint-")) / "reduced.roto.json"
        request = {
            "ask": "export",
            "tolerance_px": tab.tolerance_px,
            "targets": [str(path) for path in tab.targets],
            "reduced": str(reduced),
        }
        self._ask(self._writer, request, lambda facts: self._end(facts, reduced))

    @property
    def _writes_files(self) -> bool:
        return bool(self._tab.targets) or self._tab.mattes.isChecked()

    def shut_down(self) -> None:
        """Leave no process behind."""
        self._counter.shut_down()
        self._writer.shut_down()

    def _count(self, tolerance_px: float) -> None:
        self._ask(self._counter, {"ask": "reduce", "tolerance_px": tolerance_px}, self._tab.show_count)

    def _ask(
        self,
        client: ClerkClient,
        request: Mapping[str, Any],
        reply: Callable[[Mapping[str, Any]], None],
    ) -> None:
        try:
            engine = self._host.engine()
        except RotopaintError as error:
            reply({"error": str(error)})
            return
        state = self._session.state
        client.ask(engine, request, reply, None if state.document is None else renamed(state.document, state.names))

    def _end(self, facts: Mapping[str, Any], reduced: Path) -> None:
        """Files are written: now the host, which only this thread may talk to."""
        told = ""
        try:
            if "error" not in facts and (self._tab.wants_host or self._tab.mattes.isChecked()):
                told = self._hand_over(reduced)
        except (RotopaintError, OSError) as error:
            facts = {**facts, "error": str(error)}
        finally:
            reduced.unlink(missing_ok=True)
            reduced.parent.rmdir()
        failed = [row["error"] for row in facts.get("files", ()) if "error" in row]
        trouble = facts.get("error") or (failed[0] if failed else None)
        self._tab.show_result(facts, told)
        n = len(facts.get("files", ()))
        good = told or f"Wrote {n} file{'' if n == 1 else 's'}; {count_text(facts) if 'before' in facts else ''}"
        self.said.emit(str(trouble) if trouble else good, "trouble" if trouble else "good")
        self.ended.emit(trouble is None)

    def _hand_over(self, reduced: Path) -> str:
        document, path = documents.read(reduced), self._session.shapes_path
        assert path is not None
        if self._tab.mattes.isChecked():
            self.mattes_wanted.emit(document, Path(self._tab.folder.text()))
        return self._host.export(document, path) if self._tab.wants_host else ""


def _is_inside(folder: Path, other: Path) -> bool:
    """Whether a folder is another one or lies in it, whatever links lead there."""
    return folder.resolve().is_relative_to(other.resolve())
