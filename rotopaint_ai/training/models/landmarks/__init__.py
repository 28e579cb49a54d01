"""The landmark network: registered heads on a pyramid, its losses, and the config of a pack's training."""
