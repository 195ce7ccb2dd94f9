"""For spark-submit: `spark-submit jobs/package.py ARGUMENTS` is `sparksplit package ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.package import main

if __name__ == "__main__":
    end(main())
