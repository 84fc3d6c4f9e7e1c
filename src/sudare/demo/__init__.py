"""All five releases on made-up data, and one page about them."""

from sudare.demo.data import mesh_census, write_census, write_city, write_coast, write_members

__all__ = ["mesh_census", "write_census", "write_city", "write_coast", "write_members"]
