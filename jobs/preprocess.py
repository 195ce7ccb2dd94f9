"""For spark-submit: `spark-submit jobs/preprocess.py ARGUMENTS` is `sparksplit preprocess ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.preprocess import main

if __name__ == "__main__":
    end(main())
