"""Carries out exports: counts keys, writes and checks files, passes the shapes to the host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.names import rename_shapes
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.engine.export_client import ExportClient
from rotopaint_ui.host import Host
from rotopaint_ui.inspector.export_tab import ExportTab, count_text
from rotopaint_ui.session.session import ShotSession


class ExportRunner(QObject):
    """Exports in another process; `message_sent` gives a line and its kind for the status."""

    message_sent = Signal(str, str)
    mattes_wanted = Signal(object, object)  # the document to be drawn, the folder; `take_mattes` takes the answer
    ended = Signal(bool)

    def __init__(self, session: ShotSession, host: Host, tab: ExportTab, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._host, self._tab = session, host, tab
        self._folder, self._shapes = Path(), Path()  # where the export that is under way goes, whatever is open by then
        self._open: tuple[Mapping[str, Any], str] | None = None  # written, while mattes are still being drawn
        self._counter, self._writer = ExportClient(self), ExportClient(self)
        tab.count_wanted.connect(self._count_keys)
        tab.wanted.connect(self.export)

    @property
    def is_running(self) -> bool:
        """Whether an export is under way."""
        return self._writer.is_busy or self._open is not None

    def export(self) -> None:
        """Export with the settings of the tab."""
        document, out = self._session.document, self._session.out
        if document is None or out is None:
            self.message_sent.emit("Nothing to export yet: press Run first", "trouble")
            return
        if self._session.runs.is_live or self.is_running:
            self.message_sent.emit("Not now: wait for what is under way, or stop it with Esc", "trouble")
            return
        tab = self._tab
        if not (tab.targets or tab.wants_host or tab.mattes.isChecked()):
            self.message_sent.emit("Nothing is chosen: tick where the shapes should go in the Export tab", "trouble")
            return
        if not tab.part_to_export(document).shapes:
            self.message_sent.emit(
                "Nothing is selected: choose shapes in Shapes, or untick Selected shapes only", "trouble"
            )
            return
        why = self._refusal(out) if self._writes_files else None
        if why is not None:
            self.message_sent.emit(why, "trouble")
            return
        self._folder, self._shapes = Path(tab.folder.text().strip()), self._session.shapes_file.path or out
        tab.show_running()
        self.message_sent.emit("Exporting", "plain")
        reduced = Path(tempfile.mkdtemp(prefix="rotopaint-")) / "reduced.roto.json"
        request = {
            "ask": "export",
            "tolerance_px": tab.tolerance_px,
            "targets": [str(path) for path in tab.targets],
            "reduced": str(reduced),
        }
        self._ask_worker(self._writer, request, lambda facts: self._give_to_host(facts, reduced))

    @property
    def _writes_files(self) -> bool:
        return bool(self._tab.targets) or self._tab.mattes.isChecked()

    def _refusal(self, out: Path) -> str | None:
        """Why nothing can be written into the chosen folder; None where it can. The folder is made."""
        given = self._tab.folder.text().strip()
        if not given:
            return "Export: no folder is given; name one in the Export tab"
        if self._session.project.refusal is not None and _is_same_or_below(Path(given), out):
            return self._session.project.refusal
        try:
            Path(given).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{given}: is no folder that can be written to ({error.strerror}); choose another folder"
        return None

    def take_mattes(self, is_drawn: bool, text: str) -> None:
        """End the export when its mattes are drawn, or report why they are not."""
        if self._open is None:
            return
        (facts, host_line), self._open = self._open, None
        where = self._folder / "matte"
        if is_drawn:
            self._tell_result(facts, host_line, f"Mattes in {where}")
        else:
            row = {"path": str(where), "error": f"Mattes: {text}"}
            self._tell_result({**facts, "files": [*facts.get("files", ()), row]}, host_line)

    def shut_down(self) -> None:
        """End the export process."""
        self._counter.shut_down()
        self._writer.shut_down()

    def _count_keys(self, tolerance_px: float) -> None:
        self._ask_worker(self._counter, {"ask": "reduce", "tolerance_px": tolerance_px}, self._tab.show_count)

    def _ask_worker(
        self,
        client: ExportClient,
        request: Mapping[str, Any],
        reply: Callable[[Mapping[str, Any]], None],
    ) -> None:
        try:
            engine = self._host.engine()
        except RotopaintError as error:
            reply({"error": str(error)})
            return
        state = self._session.state
        document = (
            None if state.document is None else rename_shapes(self._tab.part_to_export(state.document), state.names)
        )
        client.ask(engine, request, reply, document)

    def _give_to_host(self, facts: Mapping[str, Any], reduced: Path) -> None:
        """After the files are written, pass the shapes to the host; only this thread may call the host."""
        host_line, document = "", None
        try:
            if "error" not in facts and (self._tab.wants_host or self._tab.mattes.isChecked()):
                document = documents.read(reduced)
                host_line = self._hand_over(document) if self._tab.wants_host else ""
        except (RotopaintError, OSError) as error:
            facts = {**facts, "error": str(error)}
        finally:
            reduced.unlink(missing_ok=True)
            reduced.parent.rmdir()
        if document is None or "error" in facts or not self._tab.mattes.isChecked():
            self._tell_result(facts, host_line)
            return
        self._open = facts, host_line
        self.mattes_wanted.emit(document, self._folder)

    def _tell_result(self, facts: Mapping[str, Any], host_line: str, mattes: str = "") -> None:
        """Report the end of an export, or its first error."""
        rows = facts.get("files", ())
        failed = [row["error"] for row in rows if "error" in row]
        trouble = facts.get("error") or (failed[0] if failed else None)
        self._tab.show_result(facts, "\n".join(part for part in (host_line, mattes) if part))
        wrote = f"Wrote {len(rows)} file{'' if len(rows) == 1 else 's'}" if rows else ""
        count = count_text(facts) if "before" in facts and not host_line else ""
        good = "; ".join(part for part in (host_line, wrote, mattes, count) if part)
        self.message_sent.emit(str(trouble) if trouble else good, "trouble" if trouble else "good")
        self.ended.emit(trouble is None)

    def _hand_over(self, document: RotoDocument) -> str:
        return self._host.export(document, self._shapes)


def _is_same_or_below(folder: Path, other: Path) -> bool:
    """Whether a folder is the same as another or inside it, with links resolved."""
    return folder.resolve().is_relative_to(other.resolve())
