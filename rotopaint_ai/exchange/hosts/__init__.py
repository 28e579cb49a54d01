"""Scripts that other programs run: they travel as text and are never imported here."""
