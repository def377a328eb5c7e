"""`python -m benchmarks.stuck`"""

import sys

from benchmarks.stuck.run import main

main(sys.argv[1:])
