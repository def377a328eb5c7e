"""Trials: scenarios put to a subject, with and without stressors, and scores of its answers."""
