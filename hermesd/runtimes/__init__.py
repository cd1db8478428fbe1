"""How a tool runs: prepare, ready, invoke, close. One module for each way."""
