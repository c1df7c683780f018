import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on a port of loopback. HiveMetaStore of Hive 2.3 listens at all addresses. */
public final class LoopbackMetastore {
    public static void main(String[] arguments) throws Exception {
        var conf = new HiveConf(HiveMetaStore.class);
        var handler = HiveMetaStore.newRetryingHMSHandler(new HiveMetaStore.HMSHandler("metastore", conf, false), conf);
        var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0]));
        var settings = new TThreadPoolServer.Args(new TServerSocket(address));
        new TThreadPoolServer(settings.processor(new TSetIpAddressProcessor<>(handler))).serve();
    }
}
