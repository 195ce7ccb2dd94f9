"""Hyperparameter search: Optuna proposes values of keys, runs of `train` try them, the best becomes a configuration.

The record of the search, search.json, is its only memory. Each proposal is computed from the record, so a killed search
goes on where it ended.
"""
