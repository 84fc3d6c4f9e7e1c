"""A mechanism by which a device reports a cell of a map, with epsilon per metre (Hiraishi and others).

location, map_file        the method, and the map it starts from (preview: its figures before it is published)
grid, roads, geo          cells and metrics: one protocol, `Places`; road networks; JIS mesh, H3, coasts
metric, attack            a map proves its metric; what is found by whoever keeps all reports of a device
near, hidden              hidden reports that come nearest to people spread like a prior, and their law
mechanism, kernel         the law P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), and sums over the map (nearby: large ones)
posterior, tight          what a collector learns from a report, and the epsilon that a map really needs
weights, sharp            weights of the modes: fair ones by a smooth optimiser, those with the least noise
device_file, device       what a device gets, and how it draws its reports (sampler; device.js for a browser)
reports, collector        reports as files, and how many people are where (estimate_files)
page                      the page about a release
"""

from sudare.methods.location.device_file import DeviceFile, load_device_file
from sudare.methods.location.location import Location
from sudare.methods.location.preview import LocationPreview

__all__ = ["DeviceFile", "Location", "LocationPreview", "load_device_file"]
