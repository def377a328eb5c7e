"""What self-play shows: runs of conversations that may collapse, condition against condition."""
