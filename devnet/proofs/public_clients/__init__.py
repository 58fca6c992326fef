"""Programs that use this chain with nothing but public client libraries: no import of ours, no type of ours.

Each takes the address of a node, does the same five things (reads, transfers with both kinds of key, watches finality,
decodes events and a module error), prints one JSON object for each, and fails where something is not as it should be.
"""
