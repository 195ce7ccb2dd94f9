"""The commands, a module each: `cli` finds them by name, and the files of jobs/ give them to spark-submit."""
