import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A job of Flink that copies `events` to `capitals` in capital letters, exactly once: its argument is a client's .properties. */
public final class Capitals {
    private Capitals() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties login = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) {
            login.load(file);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.enableCheckpointing(500);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setProperties(login)
            .setTopics("events")
            .setGroupId("capitals")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setKafkaProducerConfig(login)
            .setBootstrapServers(login.getProperty("bootstrap.servers"))
            .setProperty("transaction.timeout.ms", "600000")
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("capitals")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic("capitals")
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "events").map(String::toUpperCase).sinkTo(sink);
        environment.execute("capitals");
    }
}
