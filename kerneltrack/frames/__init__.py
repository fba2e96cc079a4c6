"""Models of a whole fleet on data frames: pandas, polars or Arrow in, the same kind out."""
