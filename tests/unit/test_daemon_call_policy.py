"""What the operator writes under `defaults` is what calls obey, key by key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import yaml

from hermesd.config.load import load_configuration
from hermesd.daemon.listener import call_policy

RETRY = {"max_attempts": 7, "backoff_ms": 11, "multiplier": 3.5, "jitter": 0.75, "attempt_timeout_ms": 13}
CIRCUIT = {
    "enabled": False, "window": 31, "failure_ratio": 0.25, "consecutive_failures": 9, "min_calls": 8,
    "open_ms": 17, "half_open_calls": 6,
}  # fmt: skip
TIMEOUTS = {name: 1000 + each for each, name in enumerate(
    ("python", "http", "openapi", "mcp", "composite", "agent", "peer", "container", "batch")
)}  # fmt: skip


def test_every_default_reaches_the_policy_of_calls(tmp_path: Path) -> None:
    path = tmp_path / "hermesd.yaml"
    defaults = {"retry": RETRY, "circuit_breaker": CIRCUIT, "timeouts_ms": TIMEOUTS, "max_timeout_ms": 5000}
    path.write_text(yaml.safe_dump({"defaults": defaults}))
    policy = call_policy(load_configuration(path, environ={}))
    assert asdict(policy.retry) == RETRY
    assert asdict(policy.circuit) == CIRCUIT
    assert policy.timeouts_ms == TIMEOUTS
    assert policy.max_timeout_ms == 5000
