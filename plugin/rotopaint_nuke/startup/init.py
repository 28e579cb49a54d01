# Nuke runs this at every start, also without a screen. Whatever happens here, Nuke must start.
try:
    try:
        import rotopaint_nuke_bootstrap
    except ImportError:  # a Nuke that does not put plug-in folders on sys.path before it runs init.py
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
