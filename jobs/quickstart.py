"""For spark-submit: `spark-submit jobs/quickstart.py ARGUMENTS` is `sparksplit quickstart ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.quickstart import main

if __name__ == "__main__":
    end(main())
