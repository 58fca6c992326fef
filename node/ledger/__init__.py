"""The chain as one node holds it: database, tree of blocks above the final one, certificates of open rounds."""
