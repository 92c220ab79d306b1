"""Projects that look nothing like the example store: odd keys, twins, tenants, several admin sites."""
