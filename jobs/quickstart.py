"""For spark-submit: `spark-submit jobs/quickstart.py ARGUMENTS` is `sparksplit quickstart ARGUMENTS`."""

import sys

from sparksplit.commands.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
