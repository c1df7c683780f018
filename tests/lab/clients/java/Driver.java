import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * The scenarios in Kafka's Java client: an order as JSON on standard input, a line of JSON for each scenario
 * (tests/lab/clients/driver.py says which). Data has the producers and consumers, Administration the admin calls, UserOperator
 * those of Strimzi's user operator.
 */
public final class Driver {
    interface Play {
        void of(Work work) throws Exception;
    }

    /** One scenario to be played. */
    record Work(JsonNode login, String name, JsonNode scenario, StringBuilder transcript) {
        /** Adds a line to the transcript, which is the detail of a scenario that passed. */
        void saw(String line) {
            transcript.append(line).append('\n');
        }

        /** What every client needs to log in. */
        Map<String, Object> settings(Object... more) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", login.get("bootstrap").asText());
            settings.put("security.protocol", login.get("protocol").asText());
            settings.put("sasl.mechanism", login.get("mechanism").asText());
            settings.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
                login.get("mechanism").asText().equals("PLAIN")
                    ? "plain.PlainLoginModule" : "scram.ScramLoginModule",
                login.get("user").asText(), login.get("password").asText()));
            if (!login.get("ca").isNull()) {
                settings.put("ssl.truststore.type", "PEM");
                settings.put("ssl.truststore.location", login.get("ca").asText());
            }
            for (int i = 0; i < more.length; i += 2) {
                settings.put((String) more[i], more[i + 1]);
            }
            return settings;
        }
    }

    static void check(boolean holds, Object said) {
        if (!holds) {
            throw new AssertionError(String.valueOf(said));
        }
    }

    static void equal(Object wanted, Object found) {
        check(wanted.equals(found), "wanted " + wanted + ", found " + found);
    }

    interface Look {
        boolean seen() throws Exception;
    }

    /** Looks again until it is seen: what is acknowledged becomes visible a little later. */
    static void until(Look look) throws Exception {
        for (int looks = 0; looks < 300; looks++) {
            if (look.seen()) {
                return;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not seen after 300 looks");
    }

    /** Of Kafka's client, whose class for it has moved between packages. */
    static String version() throws IOException {
        try (InputStream in = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            properties.load(in);
            return properties.getProperty("version");
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream out = System.out;
        JsonNode order = mapper.readTree(System.in);
        Map<String, Play> plays = new HashMap<>(Data.PLAYS);
        plays.putAll(Administration.PLAYS);
        plays.putAll(UserOperator.PLAYS);
        ObjectNode client = mapper.createObjectNode();
        out.println(client.put("client", "java").put("version", version()));
        order.get("scenarios").fields().forEachRemaining(each -> {
            String name = order.get("prefix").asText() + "-" + each.getKey();
            ObjectNode line = mapper.createObjectNode().put("scenario", each.getKey());
            play(plays.get(each.getValue().get("does").asText()),
                new Work(order.get("login"), name, each.getValue(), new StringBuilder()), line);
            out.println(line);
            out.flush();
        });
        System.exit(0);
    }

    private static void play(Play play, Work work, ObjectNode line) {
        line.put("result", "UNSUPPORTED").put("detail", "");
        if (play == null) {
            return;
        }
        try {
            play.of(work);
            line.put("result", "PASS").put("detail", work.transcript().toString());
        } catch (LinkageError absent) {
            line.put("detail", String.valueOf(absent));
        } catch (Exception | AssertionError failure) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            line.put("result", "FAIL").put("detail", trace.toString());
        }
    }
}
