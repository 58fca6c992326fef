"""How the nodes agree on one chain: Snowflake for speed, Simplex for finality; pure."""
