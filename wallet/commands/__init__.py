"""The commands of `ogpu-wallet`, one file a subject."""
