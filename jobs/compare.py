"""For spark-submit: `spark-submit jobs/compare.py ARGUMENTS` is `sparksplit compare ARGUMENTS`."""

import sys

from sparksplit.commands.compare import main

if __name__ == "__main__":
    sys.exit(main())
