"""Raw columns as features: their kinds, the fitting on the training split, and the encoding as stored values."""
