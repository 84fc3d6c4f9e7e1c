"""Pages are run by the conftest of the repository; the scripts of this folder need the extras [docs] and [pictures]."""

collect_ignore_glob = ["site/*.py", "pictures/*.py"]
