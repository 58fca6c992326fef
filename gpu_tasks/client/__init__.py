"""The customer's program `ogpu`: post units and tasks, watch them, fetch results."""
