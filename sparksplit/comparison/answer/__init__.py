"""What a comparison says to do: decided from the differences, as data, then in words."""
