"""The state: values under keys, writes over it with undo, the trie that commits to it."""
