"""The commands, one module each.

`cli` finds a command by its name, and the files in jobs/ run it under spark-submit.
"""
