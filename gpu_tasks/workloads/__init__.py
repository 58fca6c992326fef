"""What a unit of inference computes, bit-identical on every backend. No input or output, no clock."""
