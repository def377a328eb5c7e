"""From conversations to verdicts: what a detector is, the two that are ours, and the guard."""
