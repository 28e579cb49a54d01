"""Makes the product's packages importable in Nuke, one by one and by path, and adds its menu.

The site-packages folder is never added to Nuke's path. Only these three packages are imported, from the installation
around this file or from its checkout.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGES = ("rotopaint_ai", "rotopaint_ui", "rotopaint_nuke")
PANEL_ID = "ai.rotopaint.panel"
LABEL = "RotoPaint AI"
PANEL = "__import__('rotopaint_nuke.host', fromlist=['create_panel']).create_panel"
OLDEST_PYTHON = (3, 10)  # required by the packages; this file itself also runs on 3.7 (Nuke 13)


def load() -> None:
    """Make the packages importable, where Nuke's Python is new enough. Raises ImportError, which names the package."""
    if sys.version_info < OLDEST_PYTHON:
        return
    installed, checkout = _package_places()
    for name in PACKAGES:
        if name not in sys.modules:
            _load(name, (installed, checkout, os.path.join(checkout, "ui"), os.path.join(checkout, "plugin")))


def _package_places() -> tuple[str, str]:
    """The folder that contains the packages, and its parent, which is the root of a checkout."""
    installed = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return installed, os.path.dirname(installed)


def add_menu() -> None:
    """Add the menu entry and the panel; without PySide6 add an entry that opens the standalone app."""
    import nuke

    menu = nuke.menu("Nuke").addMenu(LABEL)
    if sys.version_info < OLDEST_PYTHON or importlib.util.find_spec("PySide6") is None:
        menu.addCommand("Open in the standalone app", open_standalone)
        menu.addCommand("Import shapes...", _import_shapes)
        return
    from nukescripts import panels  # type: ignore[import-not-found]

    panels.registerWidgetAsPanel(PANEL, LABEL, PANEL_ID)
    menu.addCommand("Open panel", show_panel)
    menu.addCommand("Clean plate over the selected Read...", set_up_clean)


def show_panel() -> None:
    """Dock the panel beside the properties, or at the place where the artist docked it before."""
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


def set_up_clean() -> None:
    """Ask for a run's shapes, and merge its clean frames over the selected Read."""
    import pathlib

    import nuke

    path = nuke.getFilename("shapes.roto.json of the run", "*.roto.json")
    if not path:
        return
    try:
        from rotopaint_nuke import host

        nuke.tprint(f"RotoPaint AI: {host.set_up_clean(pathlib.Path(path))}")
    except Exception as error:
        nuke.message(f"RotoPaint AI: {error}")


def open_standalone() -> None:
    """Open the panel as a separate program with the selected Read's plate, since Nuke 15 and older lack PySide6."""
    import subprocess

    import nuke

    try:
        plates = [nuke.filename(node) for node in nuke.selectedNodes("Read")][:1]
        command = [_python(), "-m", "rotopaint_ai", "panel", *filter(None, plates)]
        subprocess.Popen(command, env=_environment_without_nuke(), close_fds=True)
    except Exception as error:
        nuke.message(f"RotoPaint AI: {error}")


def _python() -> str:
    """The Python interpreter of the product's installation, found without importing the product.

    It searches the same places as `rotopaint_ui.host.find_engine`, which older Nukes cannot import. Raises OSError
    where there is none.
    """
    named = os.environ.get("ROTOPAINT_PYTHON")
    installed, checkout = _package_places()
    prefixes = [os.path.join(installed, *[".."] * n) for n in (1, 2, 3)]
    prefixes += [os.path.join(checkout, name) for name in (".venv", "venv")]
    forms = ("bin/python3", "bin/python", "Scripts/python.exe", "python.exe")
    tried = [named] if named else [os.path.normpath(os.path.join(p, form)) for p in prefixes for form in forms]
    for path in tried:
        if path and os.path.isfile(path):
            return path
    raise OSError("no Python with RotoPaint AI was found; set ROTOPAINT_PYTHON to its path")


def _environment_without_nuke() -> dict[str, str]:
    """The environment without the variables of Nuke's own Python and Qt."""
    theirs = ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONPATH", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH")
    installed, checkout = _package_places()
    kept = {name: value for name, value in os.environ.items() if name not in theirs}
    folders = [
        checkout,
        os.path.join(checkout, "ui"),
        os.path.join(checkout, "plugin"),
        os.path.join(checkout, "models"),
    ]
    is_installed = os.path.isdir(os.path.join(installed, "rotopaint_ai"))
    kept["PYTHONPATH"] = installed if is_installed else os.pathsep.join(folders)
    return kept


def _import_shapes() -> None:
    """Paste the shapes.nk that the standalone app exported."""
    import nuke

    path = nuke.getFilename("shapes.nk of the shot", "*.nk")
    if path:
        nuke.nodePaste(path)
