"""Commands that work on this machine: serve, check, init, plugin, doctor, completion."""
