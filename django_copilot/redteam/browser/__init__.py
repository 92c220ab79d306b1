"""A real browser in front of hostile texts."""
