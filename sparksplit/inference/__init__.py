"""Batch inference: a trained model's predictions for prepared or raw rows, computed in Spark executors."""
