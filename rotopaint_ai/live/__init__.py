"""The small engine that stays at the panel's side: it answers while an artist drags, in a process of its own."""
