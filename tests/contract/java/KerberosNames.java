import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;

import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/**
 * What Kafka calls the owner of a Kerberos name, for tests/contract/test_kerberos_names.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/KerberosNames.java QUESTIONS
 *
 * A line of QUESTIONS is `REALM NAME RULE...`, each in base64 (`-`: empty); a line of the answer is the name, `! why` without one,
 * or `? why` where the rules are refused before any name comes.
 */
public final class KerberosNames {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            List<String> parts = java.util.Arrays.stream(line.split(" ")).map(KerberosNames::text).toList();
            System.out.println(Base64.getEncoder().encodeToString(
                answer(parts.get(0), parts.get(1), parts.subList(2, parts.size())).getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static String answer(String realm, String name, List<String> rules) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(realm, rules);
        } catch (Exception error) {
            return "? " + error.getClass().getSimpleName();
        }
        try {
            return namer.shortName(KerberosName.parse(name));
        } catch (Exception error) {
            return "! " + error.getClass().getSimpleName();
        }
    }

    private static String text(String base64) {
        return base64.equals("-") ? "" : new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
