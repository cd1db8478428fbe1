"""Where plugins come from: what each place holds now, without reading or running any of it."""
