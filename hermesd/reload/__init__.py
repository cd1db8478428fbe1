"""Reload turns what the sources hold into what serves: read, diff, prepare, commit, drain."""
