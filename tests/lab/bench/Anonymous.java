import io.kroxylicious.proxy.authentication.Subject;
import io.kroxylicious.proxy.authentication.TransportSubjectBuilder;
import io.kroxylicious.proxy.authentication.TransportSubjectBuilderService;
import io.kroxylicious.proxy.authentication.User;
import io.kroxylicious.proxy.plugin.Plugin;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** Calls every client ANONYMOUS, as a broker does on a PLAINTEXT listener, so that rules of Kroxylicious can name it. */
@Plugin(configType = Void.class)
public final class Anonymous implements TransportSubjectBuilderService<Void> {
    @Override
    public void initialize(Void config) {
        // It has none.
    }

    @Override
    public TransportSubjectBuilder build() {
        Subject anonymous = new Subject(Set.of(new User("ANONYMOUS")));
        return context -> CompletableFuture.completedFuture(anonymous);
    }
}
