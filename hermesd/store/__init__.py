"""The data dir: contents by digest, what operators granted, what was served, and the lock on it all."""
