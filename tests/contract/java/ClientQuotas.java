import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * What Kafka's quota managers say, for tests/contract/test_quotas_kafka.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/ClientQuotas.java < LINES
 *
 * `new PRODUCE|REQUEST samples seconds`, `set user client limit` (`-`: not part of the entity, or removed; `*`: the default),
 * `who user client` (or no client) answers `limit user-tag client-tag`, `record user client value ms` answers the throttle time.
 */
public final class ClientQuotas {
    private static final Clock CLOCK = new Clock();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ClientQuotaManager manager = null;
        StringBuilder said = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> {
                    if (manager != null) manager.initiateShutdown();
                    manager = made(words);
                }
                case "set" -> manager.updateQuota(entity(words[1], true), entity(words[2], false),
                    words[3].equals("-") ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[3]))));
                case "who" -> {
                    String client = words.length > 2 ? words[2] : "";
                    Map<String, String> tags = manager.getOrCreateQuotaSensors(session(words[1]), client).metricTags();
                    double limit = manager.quota(words[1], client).bound();
                    said.append(limit >= Long.MAX_VALUE ? "none" : limit).append(' ')
                        .append(tags.get("user")).append(' ').append(tags.get("client-id")).append('\n');
                }
                default -> {
                    CLOCK.now = Long.parseLong(words[4]);
                    said.append(manager.recordAndGetThrottleTimeMs(
                        session(words[1]), words[2], Double.parseDouble(words[3]), CLOCK.now)).append('\n');
                }
            }
        }
        System.out.print(said);
        System.out.flush();
        System.exit(0);
    }

    private static ClientQuotaManager made(String[] words) {
        ClientQuotaManagerConfig config =
            new ClientQuotaManagerConfig(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        Metrics metrics = new Metrics(new MetricConfig(), CLOCK);
        return words[1].equals("REQUEST")
            ? new ClientRequestQuotaManager(config, metrics, CLOCK, "", Optional.empty())
            : new ClientQuotaManager(config, metrics, QuotaType.valueOf(words[1]), CLOCK, "");
    }

    private static Optional<ConfigEntity> entity(String word, boolean isUser) {
        if (word.equals("-")) return Optional.empty();
        if (word.equals("*"))
            return Optional.of(isUser ? ClientQuotaManager.DEFAULT_USER_ENTITY : ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        return Optional.of(isUser
            ? new ClientQuotaManager.UserEntity(word) : new ClientQuotaManager.ClientIdEntity(word));
    }

    private static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    private static final class Clock implements Time {
        private volatile long now = 0;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
