"""What operators and plugin authors write: read, checked and typed, from files and environment alone."""
