import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;

import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * What Kafka calls the owner of a certificate, for tests/contract/test_ssl_principals.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/SslPrincipals.java QUESTIONS
 *
 * A line of QUESTIONS is `CERTIFICATE RULES`, both in base64; a line of the answer is the name, or `! why` without one.
 */
public final class SslPrincipals {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ");
            byte[] der = Base64.getDecoder().decode(parts[0]);
            String rules = new String(Base64.getDecoder().decode(parts[1]), StandardCharsets.UTF_8);
            X509Certificate certificate = (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
            String answer;
            try {
                String name = certificate.getSubjectX500Principal().getName();
                answer = SslPrincipalMapper.fromRules(rules).getName(name);
            } catch (Exception error) {
                answer = "! " + error.getClass().getSimpleName();
            }
            System.out.println(Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
