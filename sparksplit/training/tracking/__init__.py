"""MLflow: what a run sends to a tracking server, and how `predict` finds a model there. Only the driver uses it."""
