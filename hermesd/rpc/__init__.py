"""The gRPC edge: it translates between the wire and the daemon, and decides nothing."""
