"""What the daemon tells its operator: events, log lines, plugin logs, metrics and process figures."""
