"""An app without modules."""
