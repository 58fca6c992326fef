"""What a validator does: its seat and keys, the record of what it signed, authoring of blocks."""
