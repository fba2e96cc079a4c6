"""What a file is by its first bytes or its ending, and how one that is not read is converted."""

from __future__ import annotations

from typing import NamedTuple

COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
"""Compression by the first bytes of a file. (bzip2's could be those of a text.)"""

READ = {
    b"PAR1": "parquet",
    b"ARROW1\0\0": "arrow",
    b"\x93NUMPY": "npy",
    b"Obj\x01": "avro",
}
"""Format by the first bytes of a file whose name does not say it."""

HEAD = 4_096
"""Bytes that are looked at."""

_TAR, _TAR_AT = b"ustar", 257
_DUCKDB, _DUCKDB_AT = b"DUCK", 8


class Other(NamedTuple):
    """A format that is not read.

    Attributes:
        name: Its name, with its article.
        how: How to make a file that is read.
        endings: Of its files.
        marks: What may be the first bytes of its files, a NUL soon after them.
    """

    name: str
    how: str
    endings: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()

    def reason(self) -> str:
        """Return why a file cannot be read."""
        return f"is {self.name}: {self.how}"


def _by_pandas(call: str) -> str:
    return f"convert it (in Python pandas.{call}('FILE').to_parquet('FILE.parquet'))"


_DUCK = Other(
    "a DuckDB database", "convert a table (in duckdb: COPY NAME TO 'NAME.parquet')", (".duckdb",)
)
_XML = Other("XML", _by_pandas("read_xml"), (".xml",))
_TRACKS = Other(
    "a file of GPS tracks",
    "convert it (gpsbabel -i gpx -f FILE -o unicsv -F FILE.csv)",
    (".gpx", ".tcx", ".fit"),
)
EXCEL = Other("an Excel workbook", "try --format excel", (), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",))
FEATHER1 = Other("Feather version 1", _by_pandas("read_feather"), (), (b"FEA1",))
TAR = Other("a tar archive", "unpack it first (tar xf FILE)", (".tar", ".tgz", ".tbz2", ".txz"))
_OTHERS = (
    *(
        Other(f"a file of {name}", f"try --format {name}", (), (mark,))
        for mark, name in READ.items()
    ),
    Other(
        "an SQLite database",
        "convert a table (sqlite3 -csv -header FILE 'SELECT * FROM NAME' > NAME.csv)",
        (".sqlite", ".sqlite3", ".db"),
        (b"SQLite format 3\0",),
    ),
    _DUCK,
    Other(
        "an HDF5 file",
        _by_pandas("read_hdf"),
        (".h5", ".hdf5", ".hdf"),
        (b"\x89HDF\r\n\x1a\n",),
    ),
    Other(
        "a MATLAB file",
        "convert a table (in MATLAB: writetable(NAME, 'NAME.csv') or parquetwrite)",
        (".mat",),
        (b"MATLAB 5.0 MAT-file",),
    ),
    Other(
        "a pickle, which may run any code when it is read",
        _by_pandas("read_pickle"),
        (".pkl", ".pickle"),
        tuple(bytes([0x80, version]) for version in range(2, 6)),
    ),
    _XML,
    _TRACKS,
    EXCEL,
    Other(
        "a netCDF file",
        "convert it (in Python "
        "xarray.open_dataset('FILE').to_dataframe().to_parquet('FILE.parquet'))",
        (".nc",),
        (b"CDF\x01", b"CDF\x02"),
    ),
    Other(
        "a TDMS file",
        "convert it (in Python "
        "nptdms.TdmsFile.read('FILE').as_dataframe().to_parquet('FILE.parquet'))",
        (".tdms",),
        (b"TDSm",),
    ),
    Other(
        "an MDF file",
        "convert it (in Python asammdf.MDF('FILE').to_dataframe().to_parquet('FILE.parquet'))",
        (".mf4", ".mdf"),
        (b"MDF     ",),
    ),
    Other("R's", "convert it (arrow::write_parquet in R)", (".rds", ".rdata")),
    Other("an SPSS file", _by_pandas("read_spss"), (".sav",)),
    Other("a Stata file", _by_pandas("read_stata"), (".dta",)),
    Other("a SAS file", _by_pandas("read_sas"), (".sas7bdat",)),
    FEATHER1,
    TAR,
    Other(
        "an archive", "unpack it first", (".7z", ".rar"), (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
    ),
)

BY_ENDING = {ending: other for other in _OTHERS for ending in other.endings}
"""Formats that are not read, by the ending of their files."""

_BINARY = {marks: other for other in _OTHERS for marks in other.marks}
_MARKED = {b"<?xml": _XML, b"<gpx": _TRACKS}


def no_text(head: bytes) -> Other | None:
    """Return what a file that is to be text is instead, by its first bytes; None if it may be text.

    Binary formats have a NUL there, which tells them from a text that begins with the same letters.
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for marks, other in _MARKED.items():
        if start.startswith(marks):
            return _TRACKS if b"<gpx" in head else other
    if b"\0" not in head[:HEAD]:
        return None
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return TAR
    if head[_DUCKDB_AT : _DUCKDB_AT + len(_DUCKDB)] == _DUCKDB:
        return _DUCK
    return next((other for marks, other in _BINARY.items() if head.startswith(marks)), None)
