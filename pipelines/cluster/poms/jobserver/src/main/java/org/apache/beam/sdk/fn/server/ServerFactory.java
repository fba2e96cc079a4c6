package org.apache.beam.sdk.fn.server;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.netty.NettyServerBuilder;
import org.apache.beam.vendor.guava.v32_1_2_jre.com.google.common.net.HostAndPort;

/**
 * Takes the place of Beam's class of this name, of which every server of the job server and of the
 * TaskManager comes: Beam's listens on all interfaces, whatever address it is given, and whoever
 * reaches it can run code. This one binds to the address that it says.
 */
public abstract class ServerFactory {

  private static final int KEEP_ALIVE_SECONDS = 20;

  /** Makes the URL by which a client reaches a server. */
  @FunctionalInterface
  public interface UrlFactory {
    String createUrl(String address, int port);

    static UrlFactory createDefault() {
      return (host, port) -> HostAndPort.fromParts(host, port).toString();
    }
  }

  public static ServerFactory createDefault() {
    return createWithUrlFactory(UrlFactory.createDefault());
  }

  public static ServerFactory createWithUrlFactory(UrlFactory urls) {
    return createWithUrlFactoryAndPortSupplier(urls, () -> 0);
  }

  public static ServerFactory createWithPortSupplier(Supplier<Integer> ports) {
    return createWithUrlFactoryAndPortSupplier(UrlFactory.createDefault(), ports);
  }

  public static ServerFactory createWithUrlFactoryAndPortSupplier(
      UrlFactory urls, Supplier<Integer> ports) {
    return new AtAddress(urls, ports);
  }

  /** Starts a server on the loopback address and says where. */
  public abstract Server allocateAddressAndCreate(
      List<BindableService> services, ApiServiceDescriptor.Builder descriptor) throws IOException;

  /** Starts a server at an address. */
  public abstract Server create(List<BindableService> services, ApiServiceDescriptor descriptor)
      throws IOException;

  private static final class AtAddress extends ServerFactory {

    private final UrlFactory urls;
    private final Supplier<Integer> ports;

    AtAddress(UrlFactory urls, Supplier<Integer> ports) {
      this.urls = urls;
      this.ports = ports;
    }

    @Override
    public Server allocateAddressAndCreate(
        List<BindableService> services, ApiServiceDescriptor.Builder descriptor)
        throws IOException {
      InetAddress host = InetAddress.getLoopbackAddress();
      Server server = start(services, new InetSocketAddress(host, ports.get()));
      descriptor.setUrl(urls.createUrl(host.getHostAddress(), server.getPort()));
      return server;
    }

    @Override
    public Server create(List<BindableService> services, ApiServiceDescriptor descriptor)
        throws IOException {
      HostAndPort address = HostAndPort.fromString(descriptor.getUrl());
      return start(services, new InetSocketAddress(address.getHost(), address.getPort()));
    }

    private static Server start(List<BindableService> services, InetSocketAddress address)
        throws IOException {
      // Whole bundles come in one message.
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(address)
              .maxInboundMessageSize(Integer.MAX_VALUE)
              .permitKeepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS);
      for (BindableService service : services) {
        builder.addService(
            ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
      }
      return builder.build().start();
    }
  }
}
