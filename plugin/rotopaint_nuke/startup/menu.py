# Nuke runs this when it has a screen. Whatever happens here, Nuke must start.
try:
    import rotopaint_nuke_bootstrap

    rotopaint_nuke_bootstrap.add_menu()
except Exception as error:
    import nuke

    nuke.tprint(f"RotoPaint AI has no menu: {error}")
