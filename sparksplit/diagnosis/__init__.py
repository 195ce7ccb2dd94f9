"""`diagnose`: what limits a training run, or a preparation of data, and what would help; found by leaving parts out."""
