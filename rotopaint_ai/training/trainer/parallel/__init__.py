"""Training in several processes: what the machine has, how many ranks that makes, and what they tell each other."""
