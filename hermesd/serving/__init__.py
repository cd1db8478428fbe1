"""Serving answers every call: catalogue, leases, admission, one dispatcher, the calls in flight."""
