import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * What Kafka's own StandardAuthorizer decides, for tests/contract/test_standard_authorizer_kafka.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/AclDecisions.java &lt; CASES
 *
 * A line of CASES has words between spaces; names are in hex, enumerations are Kafka's numbers:
 *
 *     new SUPER_USERS EVERYONE                                 an authorizer without ACLs
 *     add ID TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 *     remove ID
 *     ask PRINCIPAL ADDRESS OPERATION TYPE NAME                answered by A (allowed) or D (denied) on a line
 *     by_type PRINCIPAL ADDRESS OPERATION TYPE                 the same for authorizeByResourceType
 */
public final class AclDecisions {
    private StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws IOException {
        AclDecisions decisions = new AclDecisions();
        StringBuilder answers = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(decisions.take(line.split(" ", -1)));
        }
        System.out.print(answers);
    }

    private String take(String[] words) throws IOException {
        switch (words[0]) {
            case "new" -> renew(text(words[1]), words[2]);
            case "add" -> authorizer.addAcl(id(words[1]), acl(words));
            case "remove" -> authorizer.removeAcl(id(words[1]));
            case "ask" -> {
                ResourcePattern resource = new ResourcePattern(type(words[4]), text(words[5]), PatternType.LITERAL);
                Action action = new Action(operation(words[3]), resource, 1, true, true);
                return letter(authorizer.authorize(context(words), List.of(action)).get(0));
            }
            case "by_type" -> {
                return letter(
                    authorizer.authorizeByResourceType(context(words), operation(words[3]), type(words[4])));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "";
    }

    private void renew(String superUsers, String everyone) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", everyone));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
    }

    private static StandardAcl acl(String[] words) {
        return new StandardAcl(type(words[2]), text(words[3]), PatternType.fromCode(number(words[4])),
            text(words[5]), text(words[6]), operation(words[7]), AclPermissionType.fromCode(number(words[8])));
    }

    private static String letter(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "A\n" : "D\n";
    }

    private static Uuid id(String word) {
        return new Uuid(1, Long.parseLong(word));
    }

    private static ResourceType type(String word) {
        return ResourceType.fromCode(number(word));
    }

    private static AclOperation operation(String word) {
        return AclOperation.fromCode(number(word));
    }

    private static byte number(String word) {
        return Byte.parseByte(word);
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    private static AuthorizableRequestContext context(String[] words) throws IOException {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(text(words[1]));
        byte[] raw = HexFormat.of().parseHex(words[2]);
        // With a zone it has 20 bytes. A socket's address has the number of an interface, and no name.
        InetAddress address = raw.length <= 16 ? InetAddress.getByAddress(raw)
            : Inet6Address.getByAddress(null, Arrays.copyOf(raw, 16), ByteBuffer.wrap(raw, 16, 4).getInt());
        return new AuthorizableRequestContext() {
            @Override
            public String listenerName() {
                return "SASL_SSL";
            }

            @Override
            public SecurityProtocol securityProtocol() {
                return SecurityProtocol.SASL_SSL;
            }

            @Override
            public KafkaPrincipal principal() {
                return principal;
            }

            @Override
            public InetAddress clientAddress() {
                return address;
            }

            @Override
            public int requestType() {
                return 0;
            }

            @Override
            public int requestVersion() {
                return 0;
            }

            @Override
            public String clientId() {
                return "client";
            }

            @Override
            public int correlationId() {
                return 0;
            }
        };
    }
}
