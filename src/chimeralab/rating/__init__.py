"""Rating: a locked rubric, raters of three kinds, and the audit of how far they agree."""
