package org.apache.flink.metrics.prometheus;

import java.util.Properties;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** Makes a {@link LoopbackReporter} at the reporter's {@code port}. */
public final class LoopbackReporterFactory implements MetricReporterFactory {

  @Override
  public LoopbackReporter createMetricReporter(Properties properties) {
    return new LoopbackReporter(Integer.parseInt(properties.getProperty("port")));
  }
}
