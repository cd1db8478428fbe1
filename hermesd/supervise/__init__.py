"""Child processes: one launcher owns them all, and none outlives the daemon."""
