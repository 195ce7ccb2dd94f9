"""Tuning: what each strategy is given of its own before strategies are compared, such as a learning rate.

`space.py`: what is tried; `tries.py`: the runs that try it; `choice.py`: which is best; `said.py`,
`headline.py`: how that is told.
"""
