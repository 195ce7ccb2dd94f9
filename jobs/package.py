"""For spark-submit: `spark-submit jobs/package.py ARGUMENTS` is `sparksplit package ARGUMENTS`."""

import sys

from sparksplit.commands.package import main

if __name__ == "__main__":
    sys.exit(main())
