"""What the records of all runs say together, in steps that each take plain values and can be tested alone:

records of runs -> where they may be looked at (`runs`: places, grid, target, range) -> lines of the table (`table`)
-> paired differences -> verdicts -> the answer's sentences (sparksplit.comparison.answer) -> the page.
"""
