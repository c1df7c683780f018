import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.util.backoff.FixedBackOff;

/**
 * An application with Spring Kafka, whose argument is a client's .properties.
 *
 * It creates `shop-done` and `orders-dlt`, and copies records from `orders` to `shop-done` in transactions. A record `bad` fails, and goes
 * to `orders-dlt` after another try.
 */
public final class Shop {
    private Shop() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) {
            settings.load(file);
        }
        Map<String, Object> login = new HashMap<>();
        settings.stringPropertyNames().forEach(name -> login.put(name, settings.getProperty(name)));

        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        KafkaAdmin admin = new KafkaAdmin(login);
        admin.setFatalIfBrokerNotAvailable(true);
        context.registerBean(KafkaAdmin.class, () -> admin);
        context.registerBean("done", NewTopic.class, () -> new NewTopic("shop-done", 1, (short) 1));
        context.registerBean("failed", NewTopic.class, () -> new NewTopic("orders-dlt", 1, (short) 1));
        context.refresh();

        DefaultKafkaProducerFactory<String, String> producers =
            new DefaultKafkaProducerFactory<>(login, new StringSerializer(), new StringSerializer());
        producers.setTransactionIdPrefix("shop-");
        KafkaTemplate<String, String> template = new KafkaTemplate<>(producers);
        ContainerProperties properties = new ContainerProperties("orders");
        properties.setGroupId("shop");
        properties.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        properties.setMessageListener((MessageListener<String, String>) record -> {
            if (record.value().equals("bad")) throw new IllegalArgumentException(record.value());
            template.send("shop-done", record.value());
        });
        login.put("auto.offset.reset", "earliest");
        ConcurrentMessageListenerContainer<String, String> container = new ConcurrentMessageListenerContainer<>(
            new DefaultKafkaConsumerFactory<>(login, new StringDeserializer(), new StringDeserializer()), properties);
        container.setAfterRollbackProcessor(new DefaultAfterRollbackProcessor<>(
            new DeadLetterPublishingRecoverer(template), new FixedBackOff(0, 1), template, true));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            container.stop();
            producers.destroy();
            context.close();
        }));
        container.start();
    }
}
