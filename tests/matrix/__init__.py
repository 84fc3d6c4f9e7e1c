"""`make matrix`: the built wheel on every Python, with the lowest declared and with the newest packages."""
