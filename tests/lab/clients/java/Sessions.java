import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sessions of Kafka's Java client, all in one process (tests/lab/clients/session_driver.py says what is asked). */
public final class Sessions {
    static final long PAUSE_MS = 250;
    static final long TIMEOUT_MS = 60_000;
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final String SECURITY = "org.apache.kafka.common.security.";
    static volatile boolean over;

    /** What one cell has done so far. */
    static final class Load {
        volatile int sent;
        volatile long disconnects;
        volatile long renewals;
        final Set<Integer> acknowledged = ConcurrentHashMap.newKeySet();
        final Set<Integer> read = ConcurrentHashMap.newKeySet();
        final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();

        ObjectNode told(String cell) {
            ObjectNode line = MAPPER.createObjectNode().put("cell", cell).put("sent", sent)
                .put("acknowledged", acknowledged.size());
            Set<Integer> lost = new TreeSet<>(acknowledged);
            lost.removeAll(read);
            lost.forEach(line.putArray("lost")::add);
            errors.stream().limit(5).forEach(line.putArray("errors")::add);
            return line.put("disconnects", disconnects).put("renewals", renewals);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        JsonNode order = MAPPER.readTree(in.readLine());
        out.println(MAPPER.createObjectNode().put("version", Driver.version()));
        Map<String, Load> loads = new ConcurrentHashMap<>();
        List<Thread> threads = new ArrayList<>();
        for (JsonNode cell : order.get("cells")) {
            Load load = new Load();
            loads.put(text(cell, "cell"), load);
            threads.add(new Thread(() -> guarded(cell, load)));
        }
        threads.forEach(Thread::start);
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (!loads.values().stream().allMatch(load -> !load.read.isEmpty() || !load.errors.isEmpty())
                && System.currentTimeMillis() < end) {
            Thread.sleep(100);
        }
        out.println(MAPPER.createObjectNode().put("at_work", true));
        in.readLine();
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        loads.forEach((cell, load) -> out.println(load.told(cell)));
        System.exit(0);
    }

    private static void guarded(JsonNode cell, Load load) {
        try {
            play(cell, load);
        } catch (Exception | AssertionError failure) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            load.errors.add(trace.toString());
        }
    }

    private static void play(JsonNode cell, Load load) throws Exception {
        String name = text(cell, "cell");
        Map<String, Object> login = settings(cell);
        Map<String, Object> producing = with(login, "client.id", name + "-producer", "acks", "all");
        Map<String, Object> consuming = with(login, "client.id", name + "-consumer", "group.id", name,
            "auto.offset.reset", "earliest");
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
             var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            double closed = -1;
            while (!over) {
                int number = load.sent++;
                producer.send(new ProducerRecord<>(name, String.valueOf(number)), (record, failure) -> {
                    if (failure == null) {
                        load.acknowledged.add(number);
                    } else {
                        load.errors.add("not delivered: " + failure);
                    }
                });
                take(consumer, load, PAUSE_MS);
                if (closed < 0 && !load.read.isEmpty()) {
                    closed = total("connection-close-total", producer.metrics(), consumer.metrics());
                }
            }
            producer.flush();
            long end = System.currentTimeMillis() + TIMEOUT_MS;
            while (!load.read.containsAll(load.acknowledged) && System.currentTimeMillis() < end) {
                take(consumer, load, 200);
            }
            load.disconnects = (long) (total("connection-close-total", producer.metrics(), consumer.metrics())
                - Math.max(closed, 0));
            load.renewals = (long) total("successful-reauthentication-total",
                producer.metrics(), consumer.metrics());
        }
    }

    /** Polls for that long, so that records keep their pace. */
    private static void take(KafkaConsumer<String, String> consumer, Load load, long pauseMs) {
        long end = System.currentTimeMillis() + pauseMs;
        for (long left = pauseMs; left > 0; left = end - System.currentTimeMillis()) {
            consumer.poll(Duration.ofMillis(left)).forEach(record -> load.read.add(Integer.valueOf(record.value())));
        }
    }

    @SafeVarargs
    private static double total(String name, Map<MetricName, ? extends Metric>... metrics) {
        double sum = 0;
        for (Map<MetricName, ? extends Metric> each : metrics) {
            sum += each.entrySet().stream().filter(entry -> entry.getKey().name().equals(name)
                    && !entry.getKey().group().contains("node"))
                .mapToDouble(entry -> (Double) entry.getValue().metricValue()).sum();
        }
        return sum;
    }

    private static Map<String, Object> settings(JsonNode cell) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", text(cell, "bootstrap"));
        settings.put("security.protocol", text(cell, "protocol"));
        switch (text(cell, "mechanism")) {
            case "CERTIFICATE":
                return with(settings, "ssl.keystore.type", "PEM", "ssl.keystore.location", text(cell, "key_store"),
                    "ssl.truststore.type", "PEM", "ssl.truststore.location", text(cell, "ca"));
            case "OAUTHBEARER":
                return with(settings, "sasl.mechanism", "OAUTHBEARER",
                    "sasl.login.callback.handler.class", SECURITY + "oauthbearer.OAuthBearerLoginCallbackHandler",
                    "sasl.oauthbearer.token.endpoint.url", text(cell, "token_url"),
                    "sasl.jaas.config", jaas("oauthbearer.OAuthBearerLoginModule", "clientId", text(cell, "user"),
                        "clientSecret", "secret"),
                    "sasl.login.refresh.min.period.seconds", (short) 1,
                    "sasl.login.refresh.buffer.seconds", (short) 0,
                    "sasl.login.refresh.window.factor", 0.5,
                    "sasl.login.refresh.window.jitter", 0.0);
            case "TOKEN":
                DelegationToken token = token(cell);
                return with(settings, "sasl.mechanism", "SCRAM-SHA-256",
                    "sasl.jaas.config", jaas("scram.ScramLoginModule", "username", token.tokenInfo().tokenId(),
                        "password", token.hmacAsBase64String(), "tokenauth", "true"));
            default:
                String module = text(cell, "mechanism").equals("PLAIN")
                    ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
                return with(settings, "sasl.mechanism", text(cell, "mechanism"),
                    "sasl.jaas.config", jaas(module, "username", text(cell, "user"),
                        "password", text(cell, "password")));
        }
    }

    /** A delegation token that the administrator makes for the cell's user; a short one is renewed all the while. */
    private static DelegationToken token(JsonNode cell) throws Exception {
        JsonNode by = cell.get("by");
        KafkaPrincipal owner = new KafkaPrincipal("User", text(cell, "user"));
        KafkaPrincipal renewer = new KafkaPrincipal("User", text(by, "user"));
        Admin admin = Admin.create(settings(by));
        DelegationToken token = admin.createDelegationToken(
            new CreateDelegationTokenOptions().owner(owner).renewers(List.of(renewer))).delegationToken().get();
        if (!cell.get("renew_for_ms").isNull()) {
            long lifetimeMs = cell.get("renew_for_ms").asLong();
            admin.renewDelegationToken(token.hmac(), lasting(lifetimeMs)).expiryTimestamp().get();
            Thread renewing = new Thread(() -> renew(admin, token, lifetimeMs));
            renewing.setDaemon(true);
            renewing.start();
        }
        return token;
    }

    private static void renew(Admin admin, DelegationToken token, long lifetimeMs) {
        try {
            while (true) {
                Thread.sleep(lifetimeMs / 8);
                admin.renewDelegationToken(token.hmac(), lasting(lifetimeMs)).expiryTimestamp().get();
            }
        } catch (Exception failure) {
            System.err.println("token not renewed: " + failure);
        }
    }

    private static RenewDelegationTokenOptions lasting(long lifetimeMs) {
        return new RenewDelegationTokenOptions().renewTimePeriodMs(lifetimeMs);
    }

    private static String jaas(String module, String... options) {
        StringBuilder text = new StringBuilder(SECURITY + module + " required");
        for (int i = 0; i < options.length; i += 2) {
            text.append(String.format(" %s=\"%s\"", options[i], options[i + 1]));
        }
        return text + ";";
    }

    private static Map<String, Object> with(Map<String, Object> settings, Object... more) {
        Map<String, Object> all = new HashMap<>(settings);
        for (int i = 0; i < more.length; i += 2) {
            all.put((String) more[i], more[i + 1]);
        }
        return all;
    }

    private static String text(JsonNode node, String name) {
        return node.get(name).asText();
    }
}
