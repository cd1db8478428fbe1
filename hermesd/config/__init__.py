"""What operators and plugin authors write: read, checked and typed. Pure functions of files and environment."""
