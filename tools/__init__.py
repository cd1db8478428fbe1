"""Gates and generators of this repository. Each runs as `python -m tools.NAME` from the checkout's root."""
