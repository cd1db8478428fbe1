"""Commands that talk to a running daemon, through `hermesd.client` only."""
