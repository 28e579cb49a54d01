"""Makes the product's packages importable in Nuke, one by one and by path, and adds its menu.

Site-packages is never opened to Nuke: only these three packages are found, wherever they lie beside this file (an
installation) or in the checkout that it belongs to.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGES = ("rotopaint_ai", "rotopaint_ui", "rotopaint_nuke")
PANEL_ID = "ai.rotopaint.panel"
LABEL = "RotoPaint AI"
PANEL = "__import__('rotopaint_nuke.host', fromlist=['create_panel']).create_panel"


def load() -> None:
    """Make the packages importable. Raises ImportError naming the one that is not found."""
    installed = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    checkout = os.path.dirname(installed)
    for name in PACKAGES:
        if name not in sys.modules:
            _load(name, (installed, checkout, os.path.join(checkout, "ui"), os.path.join(checkout, "plugin")))


def add_menu() -> None:
    """The menu entry, and the panel in Nuke's list of panes; without PySide6 an entry that opens the standalone app."""
    import nuke

    menu = nuke.menu("Nuke").addMenu(LABEL)
    if importlib.util.find_spec("PySide6") is None:
        menu.addCommand("Open in the standalone app", _open_standalone)
        menu.addCommand("Import shapes...", _import_shapes)
        return
    from nukescripts import panels  # type: ignore[import-not-found]

    panels.registerWidgetAsPanel(PANEL, LABEL, PANEL_ID)
    menu.addCommand("Open panel", show_panel)


def show_panel() -> None:
    """Dock the panel beside the properties, or where the artist put it before."""
    import nuke
    from nukescripts import panels

    panel = panels.registerWidgetAsPanel(PANEL, LABEL, PANEL_ID, True)
    pane = nuke.getPaneFor("Properties.1") or nuke.getPaneFor("DAG.1")
    panel.addToPane(pane) if pane is not None else panel.show()


def _load(name: str, folders: tuple[str, ...]) -> None:
    for folder in folders:
        package = os.path.join(folder, name)
        path = os.path.join(package, "__init__.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[package])
            if spec is None or spec.loader is None:
                break
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return
    raise ImportError(f"package {name} is not found near {folders[0]}; install RotoPaint AI again")


def _open_standalone() -> None:
    """Nuke 15 and older have no PySide6: the panel opens as a program of its own, on the selected Read's plate."""
    import subprocess

    import nuke

    from rotopaint_ui.host import find_engine

    try:
        engine = find_engine(own_python=False)
        plates = [node["file"].getValue() for node in nuke.selectedNodes("Read")][:1]
        command = [engine.python, "-m", "rotopaint_ai", "panel", *plates]
        subprocess.Popen(command, env=engine.environment(), close_fds=True)
    except Exception as error:
        nuke.tprint(f"RotoPaint AI: {error}")


def _import_shapes() -> None:
    """Paste the shapes.nk that the standalone app exported."""
    import nuke

    path = nuke.getFilename("shapes.nk of the shot", "*.nk")
    if path:
        nuke.nodePaste(path)
