"""How right, against a truth that is known by construction or by people."""
