"""Attacks by connections that are held and not used."""
