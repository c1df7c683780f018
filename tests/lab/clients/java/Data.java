import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers and consumers of the scenarios. */
final class Data {
    static final int COUNT = 100;
    private static final long DEADLINE_MS = 30_000;

    static final Map<String, Driver.Play> PLAYS = Map.of(
        "produce", Data::produce,
        "consume-assigned", Data::consumeAssigned,
        "group-classic", Data::group,
        "group-consumer", Data::group,
        "transaction", Data::transaction,
        "transaction-offsets", Data::transactionOffsets,
        "denied", Data::denied);

    private Data() {
    }

    static List<String> values(int count) {
        return IntStream.range(0, count).mapToObj(n -> "value " + n + " of a record").toList();
    }

    static String aTopic(Driver.Work work, int partitions, String suffix) throws Exception {
        String name = work.name() + suffix;
        try (Admin admin = Admin.create(work.settings())) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
            Driver.until(() -> admin.listTopics().names().get().contains(name));
        }
        return name;
    }

    static KafkaProducer<String, String> producer(Driver.Work work, Object... more) {
        return new KafkaProducer<>(work.settings(more), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Driver.Work work, Object... more) {
        Map<String, Object> settings = work.settings(more);
        settings.putIfAbsent("auto.offset.reset", "earliest");
        settings.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void send(KafkaProducer<String, String> producer, TopicPartition to, List<String> values)
            throws Exception {
        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            ProducerRecord<String, String> record =
                new ProducerRecord<>(to.topic(), to.partition(), "key", value);
            record.headers().add("h", "1".getBytes(StandardCharsets.UTF_8));
            sent.add(producer.send(record));
        }
        for (var future : sent) {
            future.get();
        }
    }

    static void deliver(Driver.Work work, TopicPartition to, Object... more) throws Exception {
        try (KafkaProducer<String, String> producer = producer(work, more)) {
            send(producer, to, values(COUNT));
        }
    }

    static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> taken = new ArrayList<>();
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (taken.size() < count) {
            Driver.check(System.currentTimeMillis() < end, taken.size() + " of " + count + " records");
            consumer.poll(Duration.ofMillis(500)).forEach(taken::add);
        }
        return taken;
    }

    static List<ConsumerRecord<String, String>> read(
            Driver.Work work, TopicPartition from, int count, Object... more) {
        try (KafkaConsumer<String, String> consumer = consumer(work, more)) {
            consumer.assign(List.of(from));
            consumer.seek(from, 0);
            return take(consumer, count);
        }
    }

    static List<String> valuesOf(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    private static void denied(Driver.Work work) throws Exception {
        String topic = aTopic(work, 1, "-other");
        try (var producer = producer(work); Admin admin = Admin.create(work.settings())) {
            producer.send(new ProducerRecord<>(topic, "one")).get();
            isDenied(producer.send(new ProducerRecord<>(work.name(), "two")));
            producer.send(new ProducerRecord<>(topic, "three")).get();
            isDenied(admin.createPartitions(Map.of(work.name(), NewPartitions.increaseTo(4))).all());
        }
    }

    private static void isDenied(Future<?> future) throws Exception {
        try {
            future.get();
        } catch (ExecutionException failure) {
            Driver.check(failure.getCause() instanceof TopicAuthorizationException, failure);
            return;
        }
        throw new AssertionError("not denied");
    }

    private static void produce(Driver.Work work) throws Exception {
        TopicPartition part = new TopicPartition(aTopic(work, 1, ""), 0);
        deliver(work, part,
            "compression.type", work.scenario().get("compression").asText(),
            "acks", work.scenario().get("acks").asText(),
            "enable.idempotence", work.scenario().get("idempotent").asBoolean());
        Driver.equal(values(COUNT), valuesOf(read(work, part, COUNT)));
    }

    private static void consumeAssigned(Driver.Work work) throws Exception {
        String topic = aTopic(work, 2, "");
        List<TopicPartition> parts = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        for (TopicPartition part : parts) {
            deliver(work, part);
        }
        try (KafkaConsumer<String, String> consumer = consumer(work)) {
            consumer.assign(parts);
            consumer.seek(parts.get(0), 90);
            consumer.seek(parts.get(1), 95);
            Set<String> wanted = IntStream.range(0, 15)
                .mapToObj(n -> n < 10 ? "0@" + (90 + n) : "1@" + (85 + n)).collect(Collectors.toSet());
            Driver.equal(wanted, take(consumer, 15).stream()
                .map(record -> record.partition() + "@" + record.offset()).collect(Collectors.toSet()));
            Driver.equal(Map.of(parts.get(0), 100L, parts.get(1), 100L), consumer.endOffsets(parts));
        }
    }

    private static void group(Driver.Work work) throws Exception {
        String topic = aTopic(work, 4, "");
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        for (int partition = 0; partition < 4; partition++) {
            deliver(work, new TopicPartition(topic, partition));
            committed.put(new TopicPartition(topic, partition), new OffsetAndMetadata(60));
        }
        try (KafkaConsumer<String, String> first = member(work, topic)) {
            try (KafkaConsumer<String, String> second = member(work, topic)) {
                Driver.until(() -> polled(first) == 2 & polled(second) == 2);
            }
            Driver.until(() -> polled(first) == 4);
            first.commitSync(committed);
        }
        try (KafkaConsumer<String, String> third = member(work, topic)) {
            Set<Long> offsets = take(third, 4 * 40).stream().map(ConsumerRecord::offset)
                .collect(Collectors.toSet());
            Driver.equal(IntStream.range(60, 100).mapToObj(Long::valueOf).collect(Collectors.toSet()), offsets);
        }
    }

    private static KafkaConsumer<String, String> member(Driver.Work work, String topic) {
        String protocol = work.scenario().get("protocol").asText();
        if (protocol.equals("consumer") && !ConsumerConfig.configNames().contains("group.protocol")) {
            throw new LinkageError("no group.protocol");
        }
        KafkaConsumer<String, String> member =
            consumer(work, "group.id", work.name() + "-group", "group.protocol", protocol);
        member.subscribe(List.of(topic));
        return member;
    }

    private static int polled(KafkaConsumer<String, String> member) {
        member.poll(Duration.ofMillis(100));
        return member.assignment().size();
    }

    private static void transaction(Driver.Work work) throws Exception {
        TopicPartition part = new TopicPartition(aTopic(work, 1, ""), 0);
        boolean commits = work.scenario().get("commits").asBoolean();
        try (KafkaProducer<String, String> producer = producer(work, "transactional.id", work.name() + "-id")) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, part, values(COUNT));
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
                producer.beginTransaction();
                send(producer, part, values(5));
                producer.commitTransaction();
            }
        }
        int count = commits ? COUNT : 5;
        var taken = read(work, part, count, "isolation.level", "read_committed");
        Driver.equal(values(count), valuesOf(taken));
        Driver.equal(commits ? 0L : COUNT + 1L, taken.get(0).offset());
    }

    private static void transactionOffsets(Driver.Work work) throws Exception {
        TopicPartition source = new TopicPartition(aTopic(work, 1, "-in"), 0);
        TopicPartition target = new TopicPartition(aTopic(work, 1, "-out"), 0);
        deliver(work, source);
        try (KafkaConsumer<String, String> consumer = consumer(work, "group.id", work.name() + "-group");
                KafkaProducer<String, String> producer =
                    producer(work, "transactional.id", work.name() + "-id")) {
            consumer.subscribe(List.of(source.topic()));
            List<String> taken = valuesOf(take(consumer, COUNT));
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, target, taken);
            producer.sendOffsetsToTransaction(
                Map.of(source, new OffsetAndMetadata(COUNT, Optional.empty(), "")), consumer.groupMetadata());
            producer.commitTransaction();
            Driver.equal((long) COUNT, consumer.committed(Set.of(source)).get(source).offset());
        }
        Driver.equal(values(COUNT), valuesOf(read(work, target, COUNT, "isolation.level", "read_committed")));
    }
}
