"""The peer-to-peer transport: py-libp2p's identities and Noise under our own muxer, frames, admission and redial."""
