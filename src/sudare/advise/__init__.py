"""Which method, with which parameters, and why: from public facts alone."""
