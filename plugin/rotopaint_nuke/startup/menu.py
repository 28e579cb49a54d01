# Nuke runs this file when it has a screen. Even if something fails here, Nuke must start.
try:
    import rotopaint_nuke_bootstrap

    rotopaint_nuke_bootstrap.add_menu()
except Exception as error:
    import nuke

    nuke.tprint(f"RotoPaint AI has no menu: {error}")
