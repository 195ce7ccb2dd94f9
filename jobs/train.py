"""For spark-submit: `spark-submit jobs/train.py ARGUMENTS` is `sparksplit train ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.train import main

if __name__ == "__main__":
    end(main())
