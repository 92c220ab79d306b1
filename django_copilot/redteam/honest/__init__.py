"""The honest requests, so that zero is not won by refusing."""
