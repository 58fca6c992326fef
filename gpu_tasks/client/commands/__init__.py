"""The commands of `ogpu`: about units, about services, and how one is sent."""
