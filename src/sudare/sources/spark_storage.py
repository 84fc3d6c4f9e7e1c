"""The storage of a Spark cluster, through Hadoop's file systems: addresses, files, and a directory of our own."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from sudare.errors import ParameterError, SourceError
from sudare.scratch import ScratchDirectory, find_place, make_scratch
from sudare.text import Words, describe_refusal


@dataclass(frozen=True, kw_only=True)
class SparkAddress:
    """A cluster, what to read there, and where what must be written once may be put.

    >>> SparkAddress.read("spark://master:7077/lake/people.parquet").path
    '/lake/people.parquet'
    >>> SparkAddress.read("spark://master:7077?table=lake.people&scratch=hdfs:///tmp").table
    'lake.people'
    """

    master: str
    path: str = ""
    table: str = ""
    scratch: str = ""

    @classmethod
    def read(cls, data: str) -> SparkAddress:
        """Read spark://host:port/path, or spark://host:port?path=... or ?table=..., with &scratch=... behind.

        Error: SourceError if it names no master, no data, or both a path and a table.
        """
        parts = urlsplit(data)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = options.pop("path", "") or unquote(parts.path.rstrip("/"))
        table, scratch = options.pop("table", ""), options.pop("scratch", "")
        if options or parts.fragment or bool(path) == bool(table) or not list_hosts(parts.netloc):
            raise SourceError(
                "{data} must be like spark://host:7077/path, spark://host:7077?path=hdfs://... or"
                " spark://host:7077?table=name, with &scratch=directory where rows must be written once",
                data=re.sub(r"//[^/]*@", "//...@", data),  # a master takes no password, but somebody may have typed one
            )
        return cls(master=f"spark://{parts.netloc}", path=path, table=table, scratch=scratch)


def list_hosts(places: str) -> list[tuple[str, int]]:
    """List host and port of every master: a cluster may keep several. Empty if they cannot be read."""
    found = [re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:@/\s]+):([0-9]{1,5})", place) for place in places.split(",")]
    return [(match[1].strip("[]"), int(match[2])) for match in found if match] if all(found) else []


def escape_pattern(path: str) -> str:
    """Write the pattern that means this very path.

    >>> print(escape_pattern("/lake/a[1].parquet"))
    /lake/a\\[1\\].parquet
    """
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)


def refuse_scratch(directory: str) -> SourceError:
    """Say that rows written to a directory did not all arrive."""
    return SourceError(
        "rows were lost in {directory}, which the workers do not share; name a scratch directory that all of them"
        " see (&scratch=... or --spill-directory)",
        directory=directory.rpartition("/")[0].rpartition("/")[0],
    )


_ROW_GROUP_BYTES = 128 << 20
_MOST_PADDING = 8 << 20  # bytes before a row group, as Parquet's own writers allow
_COPY_BYTES = 1 << 20  # at a time
_SKIP_BYTES = 1 << 30  # at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """A file on the storage of a cluster: its address there, and its length in bytes."""

    address: str
    length: int

    @property
    def name(self) -> str:
        """Its name in messages, without the file system of one machine."""
        return self.address.removeprefix("file:")

    @property
    def pattern(self) -> str:
        """The pattern that means this file alone."""
        return escape_pattern(self.address)

    @property
    def is_packed(self) -> bool:
        """Tell whether it is packed as gzip."""
        return self.address.lower().endswith(".gz")

    @property
    def ending(self) -> str:
        """Tell the ending that says of which kind it is.

        >>> StoredFile(address="/lake/a.CSV.gz", length=1).ending
        '.csv'
        """
        return Path(self.address.lower().removesuffix(".gz")).suffix


class SparkStorage:
    """Files as the driver of a session sees them. Its verbs talk to Java: call them where work runs.

    `session` is set once there is one; `named_scratch` is the directory that an address names.
    """

    def __init__(self, name: Words, spill_directory: str | Path | None) -> None:
        self.name = name
        self.session: Any = None
        self.named_scratch = ""
        self._spill_directory = spill_directory
        self._scratch = ""
        self._local_scratch: ScratchDirectory | None = None

    @property
    def _jvm(self) -> Any:
        return self.session.sparkContext._jvm

    def _hadoop_conf(self) -> Any:
        return self.session._jsparkSession.sessionState().newHadoopConf()

    def _locate(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._hadoop_conf())

    def find_files(self, path: str) -> tuple[StoredFile, ...]:
        """List the files of a path or a pattern in the order of their names, but not what writers leave beside them.

        Error: SourceError if there is none.
        """
        place, files = self._locate(path)
        matches = [files.getFileStatus(place)] if files.exists(place) else list(files.globStatus(place) or ())
        listed: list[StoredFile] = []
        for match in matches:
            above = str(match.getPath().getParent() or match.getPath())
            found = files.listFiles(match.getPath(), True)
            while found.hasNext():
                status = found.next()
                stored = StoredFile(address=str(status.getPath()), length=int(status.getLen()))
                parts = stored.address.removeprefix(above).split("/")
                listed += [] if any(part.startswith(("_", ".")) and "=" not in part for part in parts) else [stored]
        if not listed:
            raise SourceError(
                "there is no {data}, or the cluster cannot see it; give a path that all workers share", data=self.name
            )
        return tuple(sorted(listed, key=lambda stored: stored.address))

    def find_pattern(self, path: str) -> str:
        """Give the pattern that means a path; one that is no path is a pattern already."""
        place, files = self._locate(path)
        return escape_pattern(path) if files.exists(place) else path

    def find_root(self, path: str) -> str:
        """Give the folder below which names of folders tell columns: a path itself, or what a pattern begins with."""
        place, files = self._locate(path)
        if files.exists(place):
            return path if files.getFileStatus(place).isDirectory() else str(place.getParent())
        return re.split(r"[*?\[{]", path)[0].rpartition("/")[0] or "/"

    def find_charset(self, name: str) -> str:
        """Give the name of an encoding as Java knows it.

        Error: SourceError if it knows none.
        """
        if not self._jvm.java.nio.charset.Charset.isSupported(name):
            raise SourceError(
                "encoding ({encoding}) is not one that Spark reads; write the files as UTF-8", encoding=name
            )
        return str(self._jvm.java.nio.charset.Charset.forName(name).name())

    def _open(self, file: StoredFile) -> Any:
        place, files = self._locate(file.address)
        stream = files.open(place)
        return self._jvm.java.util.zip.GZIPInputStream(stream) if file.is_packed else stream

    def read_head(self, file: StoredFile, most: int) -> bytes:
        """Read the first bytes of a file, unpacking .gz."""
        stream = self._open(file)
        try:
            return bytes(stream.readNBytes(most))
        finally:
            stream.close()

    def read_tail(self, file: StoredFile, most: int) -> bytes:
        """Read the last bytes of a file; a packed one is unpacked twice, once to learn its length."""
        length = file.length
        if file.is_packed:
            length, stream = 0, self._open(file)
            while skipped := int(stream.skip(_SKIP_BYTES)):
                length += skipped
            stream.close()
        stream = self._open(file)
        try:
            stream.skipNBytes(max(0, length - most))
            return bytes(stream.readNBytes(most))
        finally:
            stream.close()

    # --- a directory of our own ---------------------------------------------------------------------------------

    def make_scratch(self) -> str:
        """Make a directory on storage that the cluster shares, once; it goes when the source is closed.

        It is made where the address says; else on the file system of the cluster, if it has one of its own; else where
        temporary rows of this machine stand. A spill directory without a file system is one of this machine.
        """
        if self._scratch:
            return self._scratch
        spill = str(self._spill_directory or "")
        base = self.named_scratch or (spill if ":/" in spill else "")
        _, files = self._locate(base or "/")
        if base or files.getScheme() != "file":
            self._scratch = self._make_directory(base or "/tmp")  # noqa: S108  (of the cluster; a new one in it)
        else:
            self._scratch = self._make_local_directory()
        return self._scratch

    def _make_directory(self, base: str) -> str:
        place, files = self._locate(f"{base.rstrip('/')}/sudare-{uuid.uuid4().hex}")
        files.mkdirs(place, self._jvm.org.apache.hadoop.fs.permission.FsPermission("700"))
        files.deleteOnExit(place)
        return str(files.makeQualified(place).toString())

    def _make_local_directory(self) -> str:
        place = find_place(self._spill_directory)
        if place is None:
            raise SourceError("no directory for temporary rows can be written to; name one by --spill-directory")
        try:
            self._local_scratch = make_scratch(place)
        except OSError as error:
            raise ParameterError(
                "spill directory ({directory}) cannot be written to ({reason}); name another",
                directory=place,
                reason=describe_refusal(error),
            ) from None
        return f"file://{self._local_scratch.path.absolute()}"

    def remove(self, path: str) -> None:
        """Delete a file or a directory with all that is in it."""
        place, files = self._locate(path)
        files.delete(place, True)

    def remove_scratch(self) -> None:
        """Delete the directory of our own."""
        if self._local_scratch is not None:
            self._local_scratch.remove()
        elif self._scratch:
            self.remove(self._scratch)
        self._scratch, self._local_scratch = "", None

    # --- parts that workers wrote, as one file of this machine --------------------------------------------------

    def list_parts(self, parts: str) -> list[Any]:
        """List the parts in the order of the rows."""
        place, files = self._locate(parts)
        found = [status for status in files.listStatus(place) if status.getPath().getName().startswith("part-")]
        return sorted(found, key=lambda status: int(re.findall(r"\d+", status.getPath().getName())[0]))

    def append_bytes(self, parts: str, path: Path) -> None:
        """Append the bytes of all parts to a file of this machine."""
        out = self._jvm.java.io.FileOutputStream(str(path), True)
        try:
            for part in self.list_parts(parts):
                stream = part.getPath().getFileSystem(self._hadoop_conf()).open(part.getPath())
                self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, out, _COPY_BYTES, False)
                stream.close()
        finally:
            out.close()

    def join_parquet(self, parts: str, path: Path) -> None:
        """Make one Parquet file of all parts: their row groups, bytes as they are."""
        parquet, conf = self._jvm.org.apache.parquet, self._hadoop_conf()
        inputs = [parquet.hadoop.util.HadoopInputFile.fromPath(part.getPath(), conf) for part in self.list_parts(parts)]
        reader = parquet.hadoop.ParquetFileReader.open(inputs[0])
        described = reader.getFileMetaData()
        reader.close()
        file = parquet.io.LocalOutputFile(self._jvm.java.io.File(str(path)).toPath())
        mode = parquet.hadoop.ParquetFileWriter.Mode.OVERWRITE
        writer = parquet.hadoop.ParquetFileWriter(file, described.getSchema(), mode, _ROW_GROUP_BYTES, _MOST_PADDING)
        writer.start()
        for part in inputs:
            writer.appendFile(part)
        writer.end(described.getKeyValueMetaData())
