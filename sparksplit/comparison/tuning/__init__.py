"""The hyperparameter search: find values such as the learning rate for each strategy, before strategies are compared.

`space.py`: the values to try. `tries.py`: the runs that try them. `choice.py`: the best values. `tuning_record.py`: the
types in results.json. `said.py`: the sentences about the search.
"""
