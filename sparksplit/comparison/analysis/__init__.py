"""Analyse the records of all runs. Each step takes plain values and can be tested alone:

records of runs -> places, grid, target, range (`runs`) -> lines of the table (`table`) -> paired differences ->
verdicts -> the answer's sentences (sparksplit.comparison.answer) -> the page.
"""
