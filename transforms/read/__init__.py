"""From files to chunks: formats, columns, times, labels."""
