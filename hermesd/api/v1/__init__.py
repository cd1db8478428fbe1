"""Package hermesd.api.v1: generated, never edited."""
