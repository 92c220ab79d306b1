"""The hostile client: every address of ours, by everybody, with everything that is wrong."""
