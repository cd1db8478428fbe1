"""From what the sources hold now to what serves: watch, settle, prepare, commit, drain."""
