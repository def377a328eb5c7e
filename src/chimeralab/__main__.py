"""`python -m chimeralab` is `chimera`."""

from chimeralab.cli.main import main

main()
