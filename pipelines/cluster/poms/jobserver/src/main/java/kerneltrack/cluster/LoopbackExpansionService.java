package kerneltrack.cluster;

import java.util.Arrays;
import org.apache.beam.sdk.expansion.service.ExpansionServer;
import org.apache.beam.sdk.expansion.service.ExpansionService;
import org.apache.beam.sdk.expansion.service.ExpansionServiceOptions;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;

/**
 * Beam's expansion service on the loopback address: Beam's own main listens on every interface.
 * Arguments: a port, then pipeline options.
 */
public final class LoopbackExpansionService {

  private static final String HOST = "127.0.0.1";

  private LoopbackExpansionService() {}

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    PipelineOptionsFactory.register(ExpansionServiceOptions.class);
    PipelineOptions options =
        PipelineOptionsFactory.fromArgs(Arrays.copyOfRange(args, 1, args.length)).create();
    ExpansionServer.create(new ExpansionService(options, HOST + ":" + port), HOST, port);
    Thread.currentThread().join();
  }
}
