import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients of one user that use as much as they get: a producer or a consumer for each topic, in a thread of its own.
 *
 * <p>Arguments: "produce" or "consume", bootstrap servers, a properties file, bytes of a record, topics. Each line on
 * standard input is answered by a line of JSON: "place TOPIC...", "amounts", "received", "throttled", "errors", "end".
 */
final class Load {
    private static final int QUEUED = 400;

    private final Map<String, AtomicLong> amounts = new ConcurrentHashMap<>();
    private final Map<String, String> errors = new ConcurrentHashMap<>();
    private final Map<String, Double> throttled = new ConcurrentHashMap<>();
    private final Map<String, Double> received = new ConcurrentHashMap<>();
    private final Map<String, Long> noted = new ConcurrentHashMap<>();
    private volatile Set<String> working = Set.of();
    private volatile boolean over;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader reader = new FileReader(arguments[2])) {
            settings.load(reader);
        }
        settings.put("bootstrap.servers", arguments[1]);
        int recordBytes = Integer.parseInt(arguments[3]);
        new Load().run(arguments[0], settings, recordBytes, Arrays.asList(arguments).subList(4, arguments.length));
    }

    private void run(String does, Properties settings, int recordBytes, List<String> topics) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (String topic : topics) {
            amounts.put(topic, new AtomicLong());
            throttled.put(topic, 0.0);
            threads.add(new Thread(() -> {
                try {
                    if (does.equals("produce")) {
                        produce(topic, settings, recordBytes);
                    } else {
                        consume(topic, settings);
                    }
                } catch (Exception error) {
                    errors.put(topic, error.toString().replace('"', '\''));
                }
            }));
        }
        threads.forEach(Thread::start);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> words = Arrays.asList(line.trim().split(" +"));
            switch (words.get(0)) {
                case "place" -> {
                    working = new HashSet<>(words.subList(1, words.size()));
                    say("{}");
                }
                case "amounts" -> say(json(amounts, AtomicLong::toString));
                case "received" -> say(json(received, bytes -> Long.toString(bytes.longValue())));
                case "throttled" -> say(json(throttled, Object::toString));
                case "errors" -> say(json(errors, error -> '"' + error + '"'));
                default -> over = true;
            }
            if (over) {
                break;
            }
        }
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        say("{}");
    }

    private void produce(String topic, Properties settings, int recordBytes) throws Exception {
        Properties own = new Properties();
        own.putAll(settings);
        own.putAll(Map.of(
            "client.id", topic, "acks", "1", "enable.idempotence", "false", "linger.ms", "5", "batch.size", "500000"));
        AtomicInteger queued = new AtomicInteger();
        byte[] value = new byte[recordBytes];
        try (var producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (!over) {
                note(topic, producer.metrics(), "produce-throttle-time-max");
                if (!working.contains(topic) || queued.get() >= QUEUED) {
                    Thread.sleep(5);
                    continue;
                }
                queued.incrementAndGet();
                producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
                    queued.decrementAndGet();
                    if (error == null) {
                        amounts.get(topic).addAndGet(recordBytes);
                    } else if (!over) {
                        errors.put(topic, error.toString().replace('"', '\''));
                    }
                });
            }
            producer.close(Duration.ofMillis(1));
        }
    }

    private void consume(String topic, Properties settings) throws Exception {
        Properties own = new Properties();
        own.putAll(settings);
        // At the end of the partition a fetch waits for so long, before the consumer begins again.
        own.putAll(Map.of("client.id", topic, "enable.auto.commit", "false", "fetch.max.wait.ms", "10"));
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var consumer = new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.pause(List.of(partition));
            boolean paused = true;
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seek(partition, 0);
            while (!over) {
                note(topic, consumer.metrics(), "fetch-throttle-time-max");
                if (working.contains(topic) == paused) {
                    paused = !paused;
                    if (paused) {
                        consumer.pause(List.of(partition));
                    } else {
                        consumer.resume(List.of(partition));
                    }
                }
                for (var each : consumer.poll(Duration.ofMillis(20))) {
                    amounts.get(topic).addAndGet(each.serializedValueSize());
                }
                if (consumer.position(partition) >= end) {
                    consumer.seek(partition, 0);
                }
            }
        }
    }

    private void note(String topic, Map<MetricName, ? extends Metric> metrics, String name) {
        long now = System.nanoTime() / 100_000_000;
        if (Long.valueOf(now).equals(noted.put(topic, now))) {
            return;
        }
        for (var each : metrics.entrySet()) {
            if (!(each.getValue().metricValue() instanceof Double found) || found.isNaN()) {
                continue;
            }
            if (each.getKey().name().equals(name)) {
                throttled.merge(topic, found, Math::max);
            } else if (each.getKey().name().equals("incoming-byte-total") && each.getKey().tags().size() == 1) {
                received.put(topic, found);
            }
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static <T> String json(Map<String, T> values, java.util.function.Function<T, String> text) {
        return values.entrySet().stream().map(each -> '"' + each.getKey() + "\": " + text.apply(each.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }
}
