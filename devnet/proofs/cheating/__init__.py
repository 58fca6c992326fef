"""A provider that cheats: the production daemon with one step made dishonest. For demonstrations and tests only."""
