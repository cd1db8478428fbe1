"""The version of this build; also what `requires_hermesd` in a manifest is compared with."""

__version__ = "0.1.0"
