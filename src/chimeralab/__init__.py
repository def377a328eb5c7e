"""Chimera Lab: measure how language models fall into loops."""

__version__ = "0.1.0"
