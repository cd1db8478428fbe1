"""hermesd hosts tools for AI agents: reloads them without losing a call, and serves them over gRPC."""

from hermesd.version import __version__

__all__ = ["__version__"]
