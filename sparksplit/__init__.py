"""What every folder shares: errors, configuration, the command line, progress and the Spark session."""

__version__ = "0.1.0"
