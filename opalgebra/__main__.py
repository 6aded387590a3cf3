"""`python -m opalgebra` is the command line."""

from opalgebra.cli import main

main()
