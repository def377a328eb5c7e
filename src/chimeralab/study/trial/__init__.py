"""What only a study of kind "trial" has: arms, scenarios as they are put, scored rows."""
