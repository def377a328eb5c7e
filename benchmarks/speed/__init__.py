"""How fast, against what a user would otherwise pick."""
