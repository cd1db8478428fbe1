"""The HTTP edge: health, readiness and metrics."""
