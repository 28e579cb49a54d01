"""A window that runs many shots one after another, as the command line does."""
