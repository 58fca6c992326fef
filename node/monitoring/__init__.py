"""What people watch of a node: Prometheus figures and the last polls."""
