package kerneltrack.cluster;

import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.beam.model.pipeline.v1.RunnerApi;
import org.apache.beam.runners.flink.FlinkJobInvoker;
import org.apache.beam.runners.flink.FlinkJobServerDriver;
import org.apache.beam.runners.flink.FlinkPipelineOptions;
import org.apache.beam.runners.flink.FlinkPipelineRunner;
import org.apache.beam.runners.jobsubmission.JobInvocation;
import org.apache.beam.sdk.io.FileSystems;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.util.construction.PipelineOptionsTranslation;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.Struct;
import org.apache.beam.vendor.guava.v32_1_2_jre.com.google.common.util.concurrent.ListeningExecutorService;
import org.checkerframework.checker.nullness.qual.Nullable;

/**
 * Beam's Flink job server for a cluster on this machine. Beam's own uploads its whole class path,
 * 200 MB, with every job; this one a jar of the caller's choice, which may only name that class
 * path.
 * Arguments: Flink's address, the folder of Flink's configuration, the jar, then those of Beam's
 * server.
 */
public final class LocalJobServer {

  private LocalJobServer() {}

  public static void main(String[] args) throws Exception {
    FileSystems.setDefaultPipelineOptions(PipelineOptionsFactory.create());
    String master = args[0];
    String configuration = args[1];
    String jar = args[2];
    String[] rest = Arrays.copyOfRange(args, 3, args.length);
    FlinkJobServerDriver.FlinkServerConfiguration server = FlinkJobServerDriver.parseArgs(rest);
    FlinkJobServerDriver.fromConfig(
            server, () -> new Invoker(server, master, configuration, List.of(jar)))
        .run();
  }

  private static final class Invoker extends FlinkJobInvoker {

    private final String master;
    private final String configuration;
    private final List<String> jars;

    Invoker(
        FlinkJobServerDriver.FlinkServerConfiguration server,
        String master,
        String configuration,
        List<String> jars) {
      super(server);
      this.master = master;
      this.configuration = configuration;
      this.jars = jars;
    }

    @Override
    protected JobInvocation invokeWithExecutor(
        RunnerApi.Pipeline pipeline,
        Struct given,
        @Nullable String token,
        ListeningExecutorService executor) {
      FlinkPipelineOptions options =
          PipelineOptionsTranslation.fromProto(given).as(FlinkPipelineOptions.class);
      if (FlinkPipelineOptions.AUTO.equals(options.getFlinkMaster())) {
        options.setFlinkMaster(master);
      }
      options.setRunner(null);
      String id = options.getJobName() + "_" + UUID.randomUUID();
      FlinkPipelineRunner runner = new FlinkPipelineRunner(options, configuration, jars);
      return createJobInvocation(id, token, executor, pipeline, options, runner);
    }
  }
}
