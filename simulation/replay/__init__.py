"""A recorded chain and its replays."""
