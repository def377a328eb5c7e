"""The report of a trial."""
