"""Raw columns as features: what becomes of each, fitted on the training split, and how stored values come of it."""
