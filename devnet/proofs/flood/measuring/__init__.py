"""What honest clients see, and what the processes cost, while the attacks run."""
