"""Scripts that other programs run; they are exported as text and never imported here."""
