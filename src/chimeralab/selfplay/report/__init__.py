"""The report of a self-play study."""
