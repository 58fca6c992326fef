"""Many nodes at once: simulated from a seed, or real processes on one machine."""
