"""The sandbox: scenarios put to a subject as trials, and what its answers are worth."""
