"""Strategies of splitting the work, side by side: what `sparksplit compare` runs, finds and shows."""
