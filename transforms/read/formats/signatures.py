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
    """

    name: str
    how: str

    def reason(self) -> str:
        """Return why a file cannot be read."""
        return f"is {self.name}: {self.how}"


def _by_pandas(call: str) -> str:
    return f"convert it (in Python pandas.{call}('FILE').to_parquet('FILE.parquet'))"


_SQLITE = Other(
    "an SQLite database",
    "convert a table (sqlite3 -csv -header FILE 'SELECT * FROM NAME' > NAME.csv)",
)
_DUCK = Other("a DuckDB database", "convert a table (in duckdb: COPY NAME TO 'NAME.parquet')")
_HDF = Other("an HDF5 file", _by_pandas("read_hdf"))
_MATLAB = Other(
    "a MATLAB file", "convert a table (in MATLAB: writetable(NAME, 'NAME.csv') or parquetwrite)"
)
_PICKLE = Other("a pickle, which may run any code when it is read", _by_pandas("read_pickle"))
_XML = Other("XML", _by_pandas("read_xml"))
_TRACKS = Other(
    "a file of GPS tracks", "convert it (gpsbabel -i gpx -f FILE -o unicsv -F FILE.csv)"
)
EXCEL = Other("an Excel workbook", "try --format excel")
_NETCDF = Other(
    "a netCDF file",
    "convert it (in Python xarray.open_dataset('FILE').to_dataframe().to_parquet('FILE.parquet'))",
)
_TDMS = Other(
    "a TDMS file",
    "convert it (in Python nptdms.TdmsFile.read('FILE').as_dataframe().to_parquet('FILE.parquet'))",
)
_MDF = Other(
    "an MDF file",
    "convert it (in Python asammdf.MDF('FILE').to_dataframe().to_parquet('FILE.parquet'))",
)
FEATHER1 = Other("Feather version 1", _by_pandas("read_feather"))
TAR = Other("a tar archive", "unpack it first (tar xf FILE)")
_ARCHIVE = Other("an archive", "unpack it first")

BY_ENDING = {
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), _SQLITE),
    ".duckdb": _DUCK,
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), _HDF),
    ".mat": _MATLAB,
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
    ".xml": _XML,
    **dict.fromkeys((".gpx", ".tcx", ".fit"), _TRACKS),
    ".nc": _NETCDF,
    ".tdms": _TDMS,
    **dict.fromkeys((".mf4", ".mdf"), _MDF),
    **dict.fromkeys((".rds", ".rdata"), Other("R's", "convert it (arrow::write_parquet in R)")),
    ".sav": Other("an SPSS file", _by_pandas("read_spss")),
    ".dta": Other("a Stata file", _by_pandas("read_stata")),
    ".sas7bdat": Other("a SAS file", _by_pandas("read_sas")),
    **dict.fromkeys((".tar", ".tgz", ".tbz2", ".txz"), TAR),
    **dict.fromkeys((".7z", ".rar"), _ARCHIVE),
}
"""Formats that are not read, by the ending of their files."""

_BINARY = {
    **{marks: Other(f"a file of {name}", f"try --format {name}") for marks, name in READ.items()},
    b"FEA1": FEATHER1,
    b"SQLite format 3\0": _SQLITE,
    b"\x89HDF\r\n\x1a\n": _HDF,
    b"MATLAB 5.0 MAT-file": _MATLAB,
    b"CDF\x01": _NETCDF,
    b"CDF\x02": _NETCDF,
    b"TDSm": _TDMS,
    b"MDF     ": _MDF,
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": EXCEL,
    b"7z\xbc\xaf\x27\x1c": _ARCHIVE,
    b"Rar!\x1a\x07": _ARCHIVE,
    **{bytes([0x80, version]): _PICKLE for version in range(2, 6)},
}
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
