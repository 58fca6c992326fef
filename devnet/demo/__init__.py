"""The steps of the demo, a module each; `devnet.demo` is their order."""
