"""The daemon: wires everything, owns start and stop order."""
