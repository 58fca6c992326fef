"""A module for each pallet, or for a few that stand together: its books, random calls and actors."""
