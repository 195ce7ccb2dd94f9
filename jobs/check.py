"""For spark-submit: `spark-submit jobs/check.py ARGUMENTS` is `sparksplit check ARGUMENTS`."""

import sys

from sparksplit.commands.check import main

if __name__ == "__main__":
    sys.exit(main())
