"""The proofs behind the make targets: attacks and failures on live devnets, judged."""
