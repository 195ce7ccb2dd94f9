"""The compiled part of training: TensorFlow graphs of updates and of evaluation. Read first `step`."""
