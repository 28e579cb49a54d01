"""The landmark network: registered heads on a feature pyramid, its losses, and its training config."""
