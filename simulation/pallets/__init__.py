"""A module for each pallet, or for a few related ones: its books, random calls and actors."""
