"""What a drawn provider does: race, judge, and see cases to their ends."""
