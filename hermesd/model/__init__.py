"""Pure values and functions: no I/O, no asyncio, no clock."""
