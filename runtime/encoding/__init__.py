"""SCALE from type annotations, the primitive types, and their description for metadata."""
