"""What holds for every test and every doctest of the repository: a limit in CPU time, and a look at what tests cost."""

pytest_plugins = ["tests.limits", "pytester"]
