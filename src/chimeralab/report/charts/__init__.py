"""Every chart of the project, each a small function from numbers to a picture."""
