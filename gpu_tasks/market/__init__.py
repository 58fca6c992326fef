"""The market for GPU work, as pallets: devices, continuous inference, execution attestations."""
