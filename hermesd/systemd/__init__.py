"""Speaking to systemd: readiness, reloads, status and the watchdog."""
