"""The state machine over plans, decisions, rights, records and the clock."""
