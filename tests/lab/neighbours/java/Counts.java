import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KGroupedStream;

/** Counts the records of one topic by value, exactly once, into another topic: arguments source, target, file. */
public final class Counts {
    private Counts() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var file = java.nio.file.Files.newInputStream(Path.of(arguments[2]))) {
            settings.load(file);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> byValue =
            builder.<String, String>stream(arguments[0]).groupBy((key, value) -> value);
        byValue.count().toStream().mapValues(String::valueOf).to(arguments[1]);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.currentThread().join();
    }
}
