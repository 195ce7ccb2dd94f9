"""For spark-submit: `spark-submit jobs/predict.py ARGUMENTS` is `sparksplit predict ARGUMENTS`."""

import sys

from sparksplit.commands.predict import main

if __name__ == "__main__":
    sys.exit(main())
