package org.apache.flink.metrics.prometheus;

import io.prometheus.client.exporter.HTTPServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * Flink's Prometheus endpoint on the loopback address: Flink's own listens on every interface, and
 * no setting changes that. It stands in Flink's package because the registry is visible there only.
 */
public final class LoopbackReporter extends AbstractPrometheusReporter {

  private final HTTPServer server;

  LoopbackReporter(int port) {
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    try {
      server = new HTTPServer(address, registry);
    } catch (IOException error) {
      throw new UncheckedIOException("cannot serve metrics at " + address, error);
    }
    log.info("Metrics at {}.", address);
  }

  @Override
  public void close() {
    server.stop();
    super.close();
  }
}
