"""What executes extrinsics and blocks, checks them, and builds new ones."""
