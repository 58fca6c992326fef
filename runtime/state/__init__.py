"""The state: values under keys, writes over it with undo, the trie that commits to it.

In reading order:

* `written_keys`: the keys that a block has written, in order
* `overlay`: the state under execution: writes and events, undone if a call fails
* `trie_node`: nodes of the tree, and their bytes
* `trie`: the whole tree, shared between the states of competing blocks
* `trie_proof`: reading a state from a proof, as light clients do
"""
