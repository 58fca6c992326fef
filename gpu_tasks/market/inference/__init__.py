"""Continuous inference, mined in matched races: services, units, races, committees, money."""
