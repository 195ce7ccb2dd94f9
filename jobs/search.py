"""For spark-submit: `spark-submit jobs/search.py ARGUMENTS` is `sparksplit search ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.search import main

if __name__ == "__main__":
    end(main())
