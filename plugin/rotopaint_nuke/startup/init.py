# Nuke runs this file at every start, also without a screen. Even if something fails here, Nuke must start.
try:
    try:
        import rotopaint_nuke_bootstrap
    except ImportError:  # some versions of Nuke add plug-in folders to sys.path only after init.py
        import os
        import sys

        import nuke

        for folder in nuke.pluginPath():
            if os.path.isfile(os.path.join(folder, "rotopaint_nuke_bootstrap.py")):
                sys.path.append(folder)
        import rotopaint_nuke_bootstrap
    rotopaint_nuke_bootstrap.load()
except Exception as error:
    import nuke

    nuke.tprint(f"RotoPaint AI is not available: {error}")
