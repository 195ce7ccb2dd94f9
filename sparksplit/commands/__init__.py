"""The commands, one module each: `cli` finds them by name, and the files in jobs/ give them to spark-submit."""
