import java.util.stream.Stream;

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * Kafka's API keys and error codes, for tests/contract/test_wire_kafka_jars.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/KafkaNumbers.java
 *
 * A line is `api KEY NAME ShownAs` for an API that has a version left, `header KEY VERSION REQUEST RESPONSE` for the
 * header versions of each of its versions, or `error CODE NAME retriable?`.
 */
public final class KafkaNumbers {
    public static void main(String[] arguments) {
        Stream.of(ApiKeys.values()).filter(ApiKeys::hasValidVersion).forEach(api -> {
            System.out.printf("api %d %s %s%n", api.id, api.name(), api.name);
            for (short version = api.oldestVersion(); version <= api.latestVersion(true); version++) {
                System.out.printf("header %d %d %d %d%n",
                    api.id, version, api.requestHeaderVersion(version), api.responseHeaderVersion(version));
            }
        });
        Stream.of(Errors.values()).forEach(error ->
            System.out.printf("error %d %s %b%n",
                error.code(), error.name(), error.exception() instanceof RetriableException));
    }
}
