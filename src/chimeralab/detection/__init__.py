"""From conversations to verdicts: the interface of detectors, the built-in ones, and the guard."""
