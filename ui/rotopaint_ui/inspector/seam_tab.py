"""The Seam tab: the matte of the selected seams, how they are painted out, preview, and the frames of the clean
plate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ai import fills
from rotopaint_ai.project.state import SeamSettings
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, RotoShape
from rotopaint_ui.inspector.brush_fields import BrushFields
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import range_text
from rotopaint_ui.widgets.tab_widgets import (
    MIXED,
    footer,
    heading,
    level,
    make_scroll_area,
    note_label,
    number_box,
    put_widget,
    visibility_text,
)

_FIELDS = ("width_px", "feather_px", "taper_start", "taper_end", "grain", "strength")
_CLEAR = 2.0  # skin without a seam scores 0.9 to 2, plates with one 3 and more (seams.visibility)


class VisibilityMeter(QWidget):
    """The visibility of a seam before and after painting: two bars and their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.before: float | None = None
        self.after: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Seam visibility")

    def sizeHint(self) -> QSize:
        """The height of two rows."""
        return QSize(200, 40)

    def show_values(self, before: float | None, after: float | None) -> None:
        """Show these values; None: unknown."""
        self.before, self.after = before, after
        measured = [f"{name} {value:.2f}" for name, value in (("plate", before), ("clean", after)) if value is not None]
        self.setAccessibleDescription(", ".join(measured) or "not measured yet")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a bar for the plate and one for the clean plate."""
        painter = QPainter(self)
        most = max(self.before or 0.0, self.after or 0.0, 2 * _CLEAR)
        for row, (name, value) in enumerate((("plate", self.before), ("clean", self.after))):
            self._paint_row(painter, 20.0 * row, name, value, most)

    def _paint_row(self, painter: QPainter, y: float, name: str, value: float | None, most: float) -> None:
        left, room = 44.0, max(self.width() - 44.0 - 46.0, 10.0)
        painter.setPen(QColor("#9aa1ae"))
        painter.drawText(QRectF(0, y, left - 6, 16), int(Qt.AlignmentFlag.AlignVCenter), name)
        painter.fillRect(QRectF(left, y + 4, room, 8), QColor("#0f1013"))
        text = "\u2013" if value is None else f"{value:.2f}"
        painter.drawText(QRectF(left + room + 6, y, 40, 16), int(Qt.AlignmentFlag.AlignVCenter), text)
        if value is not None:
            colour = QColor("#8fb8ee") if value < _CLEAR else QColor("#f06a1d")
            painter.fillRect(QRectF(left, y + 4, room * min(value / most, 1.0), 8), colour)
        painter.fillRect(QRectF(left + room * _CLEAR / most, y + 2, 1, 12), QColor("#dfe3ea"))


class SeamTab(QWidget):
    """The settings of the selected seams. Each change is one undo step and applies to all of them."""

    render_wanted = Signal()
    render_all_wanted = Signal()

    def __init__(self, session: ShotSession) -> None:
        super().__init__()
        self._session = session
        self._previewed: tuple[float, float] | None = None
        self.brush = BrushFields(session)
        self._make_seam_fields()
        self._arrange_fields()

    def set_actions(self, preview: QAction) -> None:
        """Set the action of the preview button."""
        self.preview.clicked.connect(preview.trigger)
        preview.toggled.connect(self.preview.setChecked)

    def refresh(self) -> None:
        """Show the selected seams; `mixed` where they differ."""
        shapes = self._seams_chosen()
        for box in (self.width_px, self.taper_start, self.taper_end):
            box.setEnabled(any(not shape.closed for shape in shapes))
        self.feather_px.setEnabled(bool(shapes))
        seams = [shape for shape in shapes if shape.role == "seam"]
        for widget in (self.method, self.grain, self.strength, self.hold_out):
            widget.setEnabled(bool(seams))
        self._show_hint(shapes)
        if shapes:
            self._show_values(shapes)
        self.reset.setEnabled(any(self._session.seams.of(shape.name) != SeamSettings() for shape in shapes))
        self.even.setVisible(any(shape.has_widths for shape in shapes))
        self.brush.refresh()
        self._show_visibility()

    @property
    def preview_visibility(self) -> tuple[float, float] | None:
        """Visibility before and after in the preview that is shown."""
        return self._previewed

    def show_preview(self, pair: tuple[float, float] | None) -> None:
        """The seam's visibility in the preview of this frame; None without a preview."""
        self._previewed = pair
        self._show_visibility()

    def show_stale(
        self, stale: Sequence[int], n_frames: int, is_running: bool, between: Collection[int] | None = None
    ) -> None:
        """Show the number of clean-plate frames that are out of date; `between`: the frames from In to Out."""
        if is_running:
            text = "Painting; Esc stops"
        elif not n_frames:
            text = "No clean plate yet"
        elif stale:
            text = f"{len(stale)} of {n_frames} frames no longer fit the shapes"
        else:
            text = f"All {n_frames} frames are up to date"
        wanted = stale if between is None else [frame for frame in stale if frame in between]
        if between is not None and stale and n_frames and not is_running:
            text += f"; {len(wanted)} of them between In and Out"
        self.state.setText(text)
        plural = "frame" if len(wanted) == 1 else "frames"
        where = f", {range_text((min(between), max(between)))}" if between and wanted else ""
        self.render_button.setText(f"Render {len(wanted)} {plural}{where}" if wanted else "Render the clean plate")
        self.render_button.setEnabled(bool(wanted) and not is_running)
        self.render_all_button.setText(f"Render all {len(stale)}")
        self.render_all_button.setVisible(len(stale) > len(wanted))
        self.render_all_button.setEnabled(not is_running)

    # --- building

    def _make_seam_fields(self) -> None:
        self.hint = note_label()
        self.width_px = number_box(0.0, 500.0, " px", "Full width of the seam's matte")
        self.feather_px = number_box(0.0, 200.0, " px", "Feather: softness outside the matte's edge")
        self.taper_start = number_box(
            0.0, 100.0, " %", "Share of the length over which the start narrows to nothing", 5
        )
        self.taper_end = number_box(0.0, 100.0, " %", "Share of the length over which the end narrows to nothing", 5)
        self.method = QComboBox()
        self.method.addItems(fills.names())
        self.method.setPlaceholderText(MIXED)
        for index, fill in enumerate(fills.FILLS):
            self.method.setItemData(index, fill.label, Qt.ItemDataRole.ToolTipRole)
        self.grain = number_box(0.0, 100.0, " %", "Share of the plate's grain that is put back", 10)
        self.strength = number_box(0.0, 100.0, " %", "How much of the paint shows: 0 is the plate", 10)
        self.hold_out = QCheckBox("&Hold out what stands in front")
        self.hold_out.setToolTip(
            "A hand, a prop or hair before the seam stays as it is on the plate; a run writes it as matte/front"
        )
        self.reset = QPushButton("Back to the model's")
        self.reset.setToolTip("Width, feather, taper and paint as the model proposes them")
        self.even = QPushButton("Even width")
        self.even.setToolTip("Take the profile away: as wide on both sides and all along (S drags its handles)")
        self.preview = QPushButton("Preview this frame")
        self.preview.setCheckable(True)
        self.render_button = QPushButton("Render the clean plate")
        self.render_button.setToolTip("Paint the frames that no longer fit, and only those (rotopaint clean)")
        self.render_all_button = QPushButton()
        self.render_all_button.setToolTip("Those outside In and Out as well (Ctrl+Alt+Shift+Return)")
        self.render_all_button.hide()
        self.patch = QCheckBox("Patch layer as well")
        self.patch.setToolTip("The paint alone, premultiplied RGBA over the plate, in the folder patch")
        self.state = note_label("No clean plate yet")
        self.meter = VisibilityMeter()
        self.average = note_label()
        for box in (self.width_px, self.feather_px, self.taper_start, self.taper_end, self.grain, self.strength):
            box.valueChanged.connect(lambda value, box=box: self._edit(box))
        self.method.activated.connect(lambda index: self._edit(self.method))
        self.hold_out.clicked.connect(lambda: self._edit(self.hold_out))
        self.reset.clicked.connect(self._reset_seams)
        self.even.clicked.connect(self._even_out)
        self.render_button.clicked.connect(self.render_wanted)
        self.render_all_button.clicked.connect(self.render_all_wanted)

    def _arrange_fields(self) -> None:
        """Lay out the fields, which scroll, above the buttons that render, which stay visible."""
        form = QFormLayout()
        form.setVerticalSpacing(7)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(heading("Matte"))
        rows = (("&Width", self.width_px), ("&Feather", self.feather_px), ("Taper, &start", self.taper_start))
        for label, box in (*rows, ("Taper, &end", self.taper_end)):
            form.addRow(label, box)
        form.addRow(self.even)
        form.addRow(heading("Paint"))
        for label, widget in (("&Method", self.method), ("&Grain", self.grain), ("S&trength", self.strength)):
            form.addRow(label, widget)
        form.addRow(self.hold_out)
        form.addRow(self.reset)
        form.addRow(self.average)
        self.brush.add_to(form)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        level(form)
        column.addWidget(make_scroll_area(self.hint, form), 1)
        column.addWidget(
            footer(self.meter, self.preview, self.state, self.patch, self.render_button, self.render_all_button)
        )

    # --- showing

    def _seams_chosen(self) -> tuple[RotoShape, ...]:
        document, selected = self._session.document, self._session.shape
        if document is None or selected is None:
            return ()
        others = tuple(shape for shape in document.shapes if shape.name in self._session.selection.others)
        return (selected, *others)

    def _show_hint(self, shapes: Sequence[RotoShape]) -> None:
        if not shapes:
            self.hint.setText("Select a seam in the viewer or in Shapes; several at once are set together.")
        else:
            self.hint.setText(", ".join(self._session.names.of(shape.name) for shape in shapes))

    def _show_values(self, shapes: Sequence[RotoShape]) -> None:
        settings = [self._session.seams.of(shape.name) for shape in shapes]
        lines = [shape for shape in shapes if not shape.closed] or list(shapes)
        put_widget(self.width_px, *(DEFAULT_WIDTH_PX if each.width_px is None else each.width_px for each in lines))
        put_widget(self.feather_px, *(shape.feather_px for shape in shapes))
        put_widget(self.taper_start, *(round(each.taper[0] * 100) for each in lines))
        put_widget(self.taper_end, *(round(each.taper[1] * 100) for each in lines))
        put_widget(self.grain, *(round(each.grain * 100) for each in settings))
        put_widget(self.strength, *(round(each.strength * 100) for each in settings))
        held = {each.hold_out for each in settings}
        self.hold_out.setTristate(len(held) > 1)
        self.hold_out.setCheckState(_check_state(held))
        methods = {each.method for each in settings}
        if len(methods) == 1:
            self.method.setCurrentText(methods.pop())
        else:
            self.method.setCurrentIndex(-1)

    def _show_visibility(self) -> None:
        seam = self._session.run.seam
        pair = self._previewed or seam.get(self._session.frame, (None, None))
        self.meter.show_values(*pair)
        pairs = [(before, after) for before, after in seam.values() if before is not None and after is not None]
        if pairs:
            mean = [sum(values) / len(pairs) for values in zip(*pairs)]
            self.average.setText(f"Seam visibility of the whole shot: {visibility_text(mean[0], mean[1])}")
        else:
            self.average.setText("Measured when the clean plate is rendered")

    # --- editing

    def _edit(self, widget: QDoubleSpinBox | QComboBox | QCheckBox) -> None:
        """Change one field of every selected seam in one step."""
        shapes = self._seams_chosen()
        session = self._session
        if not shapes or session.runs.is_live or session.project.refuses() or session.edits.is_gesture_open():
            self.refresh()  # the field shows the real value again
            return
        changed = {each.name: self._with_changes(widget, each, session.seams.of(each.name)) for each in shapes}
        session.seams.set(changed)

    def _with_changes(self, widget: object, shape: RotoShape, old: SeamSettings) -> SeamSettings:
        if widget is self.method:
            return replace(old, method=self.method.currentText())
        if widget is self.hold_out:
            return replace(old, hold_out=self.hold_out.isChecked())
        if widget is self.width_px:
            return old if shape.closed else replace(old, width_px=self.width_px.value())
        if widget is self.feather_px:
            return replace(old, feather_px=self.feather_px.value())
        if widget is self.grain:
            return replace(old, grain=self.grain.value() / 100)
        if widget is self.strength:
            return replace(old, strength=self.strength.value() / 100)
        start, end = shape.taper
        if widget is self.taper_start:
            start = self.taper_start.value() / 100
        else:
            end = self.taper_end.value() / 100
        return old if shape.closed else replace(old, taper=(start, end))

    def _reset_seams(self) -> None:
        self._set_all({shape.name: SeamSettings() for shape in self._seams_chosen()})

    def _even_out(self) -> None:
        seams, shapes = self._session.seams, self._seams_chosen()
        self._set_all({shape.name: replace(seams.of(shape.name), profile=()) for shape in shapes if shape.has_widths})

    def _set_all(self, settings: Mapping[str, SeamSettings]) -> None:
        session = self._session
        if not (session.runs.is_live or session.project.refuses() or session.edits.is_gesture_open()):
            session.seams.set(settings)


def _check_state(values: Collection[bool]) -> Qt.CheckState:
    """Checked, unchecked, or between where the values differ; a click then checks all."""
    if len(values) > 1:
        return Qt.CheckState.PartiallyChecked
    return Qt.CheckState.Checked if all(values) else Qt.CheckState.Unchecked
