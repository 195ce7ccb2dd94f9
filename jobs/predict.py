"""For spark-submit: `spark-submit jobs/predict.py ARGUMENTS` is `sparksplit predict ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.predict import main

if __name__ == "__main__":
    end(main())
