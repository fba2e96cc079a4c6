package kerneltrack.rocksdb;

import java.util.Collection;
import org.apache.flink.contrib.streaming.state.RocksDBOptionsFactory;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;

/**
 * Lets RocksDB begin a new list of its files (MANIFEST) once the old one is long.
 *
 * <p>Every checkpoint adds to the list and uploads it whole. By RocksDB's default it is begun anew
 * at a gigabyte.
 */
public final class ShortManifest implements RocksDBOptionsFactory {
  private static final long serialVersionUID = 1L;
  private static final long MOST_BYTES = 256L << 10;

  @Override
  public DBOptions createDBOptions(DBOptions options, Collection<AutoCloseable> toClose) {
    return options.setMaxManifestFileSize(MOST_BYTES);
  }

  @Override
  public ColumnFamilyOptions createColumnOptions(
      ColumnFamilyOptions options, Collection<AutoCloseable> toClose) {
    return options;
  }
}
