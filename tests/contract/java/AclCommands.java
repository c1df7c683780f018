import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.AclCommand;

/**
 * Which ACLs kafka-acls would add or remove, for tests/contract/test_proposal_kafka.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/AclCommands.java &lt; COMMANDS
 *
 * A line of COMMANDS is `add` or `remove`, and the arguments, each in hex. It is answered by one line: the ACLs
 * or filters separated by blanks, each as TYPE,NAME,PATTERN,PRINCIPAL,HOST,OPERATION,PERMISSION with names in hex
 * and nothing after the pattern where all ACLs of a resource are meant, or by `E` if the command ends with an error.
 */
public final class AclCommands {
    private static final class Ended extends RuntimeException {
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Ended();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) throws Exception {
        String[] options = Arrays.stream(words).skip(1).map(AclCommands::text).toArray(String[]::new);
        Class<?> type = Class.forName("org.apache.kafka.tools.AclCommand$AclCommandOptions");
        Constructor<?> constructor = type.getDeclaredConstructor(String[].class);
        Method check = type.getDeclaredMethod("checkArgs");
        String name = words[0].equals("add") ? "getResourceToAcls" : "getResourceFilterToAcls";
        Method acls = AclCommand.class.getDeclaredMethod(name, type);
        constructor.setAccessible(true);
        check.setAccessible(true);
        acls.setAccessible(true);
        try {
            Object parsed = constructor.newInstance((Object) options);
            check.invoke(parsed);
            return written((Map<?, ?>) acls.invoke(null, parsed));
        } catch (InvocationTargetException error) {
            return "E";
        }
    }

    private static String written(Map<?, ?> found) {
        Set<String> lines = new TreeSet<>();
        found.forEach((resource, entries) -> {
            ResourcePatternFilter filter = resource instanceof ResourcePatternFilter given
                ? given : ((org.apache.kafka.common.resource.ResourcePattern) resource).toFilter();
            String pattern = filter.resourceType() + "," + hex(filter.name()) + "," + filter.patternType();
            if (((Set<?>) entries).isEmpty()) {
                lines.add(pattern);
            }
            for (Object each : (Set<?>) entries) {
                AccessControlEntry entry = (AccessControlEntry) each;
                lines.add(String.join(",", pattern, hex(entry.principal()), hex(entry.host()),
                    entry.operation().toString(), entry.permissionType().toString()));
            }
        });
        return String.join(" ", lines);
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
